from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("taxonomy", "0004_themes_fold_by_hand")]

    operations = [
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                models.Func(
                    models.F("path"),
                    models.Value(" \u203a "),
                    models.Value(-1),
                    function="split_part",
                    output_field=models.CharField(),
                ),
                name="node_last_name",
            ),
        )
    ]
