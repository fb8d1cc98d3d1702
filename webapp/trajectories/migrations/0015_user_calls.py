from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0014_disturbances")]

    operations = [
        migrations.AddField(
            model_name="step",
            name="by",
            field=models.CharField(
                choices=[("agent", "Agent"), ("user", "User")], db_default="agent", default="agent", max_length=5
            ),
        ),
        migrations.AddField(
            model_name="trajectory",
            name="user_call_count",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
