from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pages", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="visit",
            name="steps_hidden",
            field=models.BooleanField(default=False),
        ),
    ]
