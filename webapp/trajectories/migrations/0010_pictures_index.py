from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0009_pictures_facts")]

    operations = [
        migrations.AddIndex(
            "trajectory",
            models.Index(
                fields=["id"],
                include=[
                    "environment", "policy", "outcome", "failure", "live", "reward", "step_count", "tokens", "created_at",
                ],
                name="trajectory_facts",
            ),
        ),
    ]  # fmt: skip
