-- Rows that a load sets aside.

CREATE SEQUENCE shardfdw_internal.load_id;
REVOKE ALL ON shardfdw_internal.load_id FROM PUBLIC;
-- Any role that runs pg_dump reads the sequence.
GRANT SELECT ON shardfdw_internal.load_id TO PUBLIC;
COMMENT ON SEQUENCE shardfdw_internal.load_id IS
	'Numbers of the loads that wrote into a REJECT_TABLE. COPY draws from it whatever the rights of its user.';
-- Restored tables of rejected rows keep their numbers, and new numbers must not collide with them.
SELECT pg_catalog.pg_extension_config_dump('shardfdw_internal.load_id', '');

CREATE FUNCTION shardfdw.create_reject_table(
	relation text,
	schema name DEFAULT current_schema()	-- computed by the caller, with its search_path
) RETURNS regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	parts text[] := parse_ident(relation);
	target text;
BEGIN
	IF cardinality(parts) = 1 THEN
		parts := schema::text || parts;
	END IF;
	IF relation IS NULL OR cardinality(parts) <> 2 OR parts[1] IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_name',
			MESSAGE = format('relation %L is not of the form schema.table', relation);
	END IF;
	target := format('%I.%I', parts[1], parts[2]);
	EXECUTE format('CREATE TABLE %s (load bigint NOT NULL, line bigint, column_name text, shard text, '
				   'sqlstate text NOT NULL, message text, raw text)', target);
	EXECUTE format('COMMENT ON TABLE %s IS %L', target, 'Rows that COPY with the option REJECT_TABLE set aside.');
	EXECUTE format('COMMENT ON COLUMN %s.load IS %L', target, 'Number of the load.');
	EXECUTE format('COMMENT ON COLUMN %s.line IS %L', target, 'Line of the input, counted from 1; the last one of a row of several lines.');
	EXECUTE format('COMMENT ON COLUMN %s.column_name IS %L', target, 'Column that was wrong; null when no single one was.');
	EXECUTE format('COMMENT ON COLUMN %s.shard IS %L', target, 'Shard that refused the row; null when it was rejected before it was sent.');
	EXECUTE format('COMMENT ON COLUMN %s.sqlstate IS %L', target, 'SQLSTATE of the error.');
	EXECUTE format('COMMENT ON COLUMN %s.message IS %L', target, 'Message of the error.');
	EXECUTE format('COMMENT ON COLUMN %s.raw IS %L', target, 'The line as it was in the input, in the database''s encoding; bytes that are no characters are shown as \xNN.');
	RETURN target::regclass;
END
$$;
COMMENT ON FUNCTION shardfdw.create_reject_table(text, name) IS
	'Creates a table, owned by the caller, for rows that COPY with the option REJECT_TABLE sets aside. The schema argument is used if the name is not qualified. Returns the table. Raises duplicate_table if it exists.';
