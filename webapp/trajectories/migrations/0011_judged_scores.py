from django.db import migrations, models


def rename_failures(apps, schema_editor):
    """No check leaves a doubt to a judge any more."""
    trajectories = apps.get_model("trajectories", "Trajectory").objects
    trajectories.filter(failure__in=("judge", "uncertain")).update(failure="check")


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0010_pictures_index")]

    operations = [
        migrations.AddField("score", "judge", models.CharField(blank=True, default="", max_length=200)),
        migrations.AddField("score", "question", models.CharField(blank=True, default="", max_length=64)),
        migrations.RunPython(rename_failures, migrations.RunPython.noop),
    ]
