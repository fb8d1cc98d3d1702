from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0006_user_fault"),
    ]

    operations = [
        migrations.AddField(
            model_name="rolloutfile",
            name="unclear",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
