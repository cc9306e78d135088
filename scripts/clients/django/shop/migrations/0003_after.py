"""0003_after.py - columns, and a foreign key, of tables that are sharded"""

import django.contrib.postgres.functions
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0002_shard'),
    ]

    operations = [
        migrations.AddField(
            model_name='campaign',
            name='token',
            field=models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID()),
        ),
        migrations.AddField(
            model_name='company',
            name='main_tag',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='shop.tag'),
        ),
    ]
