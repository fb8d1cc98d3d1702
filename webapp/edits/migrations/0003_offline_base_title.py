from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("edits", "0002_kept_backfill")]

    operations = [
        migrations.AddField(model_name="edit", name="base_title", field=models.CharField(blank=True, max_length=300)),
    ]
