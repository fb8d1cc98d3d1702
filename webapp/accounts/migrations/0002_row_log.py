from __future__ import annotations

from django.db import migrations

from webapp.accounts.row_log import FUNCTION, NO_FUNCTION


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [migrations.RunSQL(FUNCTION, NO_FUNCTION)]
