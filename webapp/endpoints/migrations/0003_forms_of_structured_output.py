from django.db import migrations, models

TO_FORMS = "UPDATE endpoints_endpoint SET structured = CASE WHEN held THEN 'json_schema' ELSE 'none' END"
BACK = "UPDATE endpoints_endpoint SET held = structured = 'json_schema'"


class Migration(migrations.Migration):
    dependencies = [
        ("endpoints", "0002_prices_and_schemas"),
    ]

    operations = [
        migrations.RenameField("endpoint", "structured", "held"),
        migrations.AddField(
            model_name="endpoint",
            name="structured",
            field=models.CharField(
                choices=[
                    ("none", "words alone"),
                    ("json_object", "a JSON object (json_object)"),
                    ("json_schema", "a JSON schema (json_schema)"),
                ],
                default="none",
                max_length=12,
            ),
        ),
        migrations.RunSQL(TO_FORMS, BACK),
        migrations.RemoveField("endpoint", "held"),
    ]
