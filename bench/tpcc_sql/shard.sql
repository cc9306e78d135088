-- All tables by warehouse, colocated. Each node has all items.
SELECT shardfdw.shard_table('warehouse', 'w_id', shards => :shards) \g /dev/null
SELECT shardfdw.shard_table(name, key, colocate_with => 'warehouse')
	FROM (VALUES ('district'::regclass, 'd_w_id'), ('customer', 'c_w_id'), ('history', 'h_w_id'), ('orders', 'o_w_id'),
		('new_order', 'no_w_id'), ('order_line', 'ol_w_id'), ('stock', 's_w_id')) t (name, key) \g /dev/null
SELECT shardfdw.create_reference_table('item') \g /dev/null
