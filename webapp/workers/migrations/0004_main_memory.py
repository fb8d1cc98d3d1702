from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workers", "0003_store"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="main_memory_mib",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
