from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0007_kept_current_by")]

    operations = [
        migrations.AddField("task", "scored_count", models.PositiveIntegerField(default=0, db_default=0)),
        migrations.AddField("task", "solved_count", models.PositiveIntegerField(default=0, db_default=0)),
    ]
