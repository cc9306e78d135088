"""0002_shard.py - adds the nodes, and shards the tables that there are"""

import os

from django.conf import settings
from django.db import migrations

PORT = int(os.environ.get("NODE_PORT", "0"))


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = (
        [
            migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS shardfdw", ""),
            migrations.RunSQL(
                f"SELECT shardfdw.add_node('n' || i, '127.0.0.1', {PORT}, (current_database() || '_n' || i)::name, create_database => true) FROM generate_series(1, 2) i", ""
            ),
            migrations.RunSQL("SELECT shardfdw.create_reference_table('shop_tag')", ""),
            migrations.RunSQL("SELECT shardfdw.shard_tables('{shop_company,shop_companytag,shop_campaign,shop_ad}', 'company_id', shards => 4)", ""),
        ]
        if settings.SHARDED
        else []
    )
