-- Time partitions of a parent, each sharded by key: creates future partitions and drops old ones.

CREATE FUNCTION shardfdw_internal.time_partitions(parent regclass) RETURNS TABLE (partition regclass, ends timestamptz, ends_there timestamp)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_column
BEGIN
	IF NOT EXISTS (SELECT FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
			WHERE p.partrelid = parent AND p.partstrat = 'r' AND p.partnatts = 1
				AND a.atttypid IN ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)) THEN
		PERFORM shardfdw_internal.raise_other_kind(parent, 'table partitioned by range of one column of type date or timestamp');
	END IF;
	-- infinity and MAXVALUE are not the end of a time partition
	RETURN QUERY SELECT c.oid::regclass, e.ends::timestamptz, e.ends::timestamp
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) AS b(bound),
		substring(b.bound FROM $re$TO \('([^']*)'\)$re$) AS e(ends)
	WHERE i.inhparent = parent AND b.bound <> 'DEFAULT';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.time_partitions(regclass) IS
	'Lists the time partitions of a table, except DEFAULT. Returns the end of each, null for MAXVALUE, in two forms: in the session''s time zone, and without time zone conversion, for columns without time zone. Raises wrong_object_type.';

CREATE FUNCTION shardfdw.drop_old_time_partitions(relation regclass, older_than timestamptz) RETURNS SETOF text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('drop_old_time_partitions');
	FOR name IN SELECT t.partition::text FROM shardfdw_internal.time_partitions(relation) t WHERE t.ends <= older_than ORDER BY t.ends LOOP
		EXECUTE 'DROP TABLE ' || name;
		RETURN NEXT name;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.drop_old_time_partitions(regclass, timestamptz) IS
	'Drops the time partitions of a table that end at the given time or earlier, and their shards. Returns the names of the partitions, oldest first. Raises wrong_object_type for a parent that is not partitioned by time, and the errors of DROP TABLE.';

CREATE FUNCTION shardfdw.create_time_partitions(relation regclass, partition_interval interval, end_at timestamptz, retention interval DEFAULT NULL,
											key name DEFAULT NULL, shards integer DEFAULT NULL) RETURNS SETOF regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_variable
DECLARE
	months CONSTANT int := extract(year FROM partition_interval) * 12 + extract(month FROM partition_interval);
	days CONSTANT int := extract(day FROM partition_interval);
	within_day CONSTANT interval := partition_interval - make_interval(months => months, days => days);
	zone text := current_setting('TimeZone');
	parent_name name;
	parent_schema name;
	shards_in name;
	last record;
	today timestamp;
	starts timestamp;
	ends timestamp;
	has_zone boolean;
	name text;
	made regclass;
	nodes name[];
BEGIN
	PERFORM shardfdw_internal.check_isolation('create_time_partitions');
	IF relation IS NULL OR partition_interval IS NULL OR end_at IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation, partition_interval and end_at must not be null';
	END IF;
	IF NOT (months > 0 AND days = 0 AND within_day = '0' OR months = 0 AND days > 0 AND within_day = '0'
			OR months = 0 AND days = 0 AND within_day > '0' AND extract(epoch FROM interval '24:00') % extract(epoch FROM within_day) = 0) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('partitions cannot have the interval %s', partition_interval),
			HINT = 'It is a number of months, a number of days, or a part of a day that divides it.';
	END IF;
	IF NOT isfinite(end_at) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'end_at must be a finite time';
	END IF;
	SELECT c.relname, n.nspname INTO parent_name, parent_schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	PERFORM shardfdw_internal.lock_table(relation, 'SHARE UPDATE EXCLUSIVE');
	SELECT t.partition, t.ends, t.ends_there, p.partstrat IS NOT NULL AS is_partitioned INTO last FROM shardfdw_internal.time_partitions(relation) t
	LEFT JOIN pg_partitioned_table p ON p.partrelid = t.partition ORDER BY t.ends DESC NULLS FIRST LIMIT 1;
	SELECT a.atttypid = 'timestamptz'::regtype INTO has_zone FROM pg_partitioned_table p
	JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] WHERE p.partrelid = relation;
	-- Hours are counted in UTC, which has no daylight saving time.
	IF has_zone AND months = 0 AND days = 0 THEN
		zone := 'UTC';
	END IF;
	IF last.partition IS NULL THEN
		today := (now() - coalesce(retention, '0')) AT TIME ZONE zone;
		starts := CASE WHEN months > 0 THEN make_date(1, 1, 1) + make_interval(months => (extract(year FROM today)::int * 12 + extract(month FROM today)::int - 13) / months * months)
			ELSE date_bin(partition_interval, today, timestamp '2001-01-01') END;
	ELSIF last.ends IS NULL OR NOT isfinite(last.ends) THEN
		RETURN;
	ELSE
		starts := CASE WHEN has_zone THEN last.ends AT TIME ZONE zone ELSE last.ends_there END;
	END IF;
	IF key IS NULL AND NOT coalesce(last.is_partitioned, false) THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = format('no partition of table "%s" tells by which key new ones are sharded', parent_name),
			HINT = 'Name the column: key => ''...''.';
	END IF;

	-- A partition with split or merged shards cannot be colocated with. The new one gets as many shards on the same nodes.
	IF key IS NULL AND shards IS NULL AND shardfdw_internal.hash_placement(last.partition) IS NULL THEN
		SELECT nullif(count(*), 0), array_agg(DISTINCT s.node) INTO shards, nodes FROM shardfdw_internal.shards_of(last.partition) s;
	END IF;
	-- shards that are in a separate schema
	IF last.is_partitioned THEN
		shards_in := nullif(shardfdw_internal.shards_schema(last.partition), (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = last.partition));
	END IF;
	WHILE starts < end_at AT TIME ZONE zone LOOP
		ends := starts + partition_interval;
		name := parent_name || to_char(starts, CASE WHEN months > 0 THEN '_YYYY_MM' WHEN days > 0 THEN '_YYYY_MM_DD' ELSE '_YYYY_MM_DD_HH24MI' END);
		IF octet_length(name) > 59 THEN
			RAISE EXCEPTION USING ERRCODE = 'name_too_long', MESSAGE = format('"%s" is too long for the name of a table with shards', name);
		END IF;
		-- Attached when it is complete. PARTITION OF would wait for all readers of the table, and they would wait for it.
		EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION) PARTITION BY %s',
			parent_schema, name, relation, CASE WHEN key IS NULL THEN pg_get_partkeydef(last.partition) ELSE format('HASH (%I)', key) END);
		made := format('%I.%I', parent_schema, name)::regclass;
		EXECUTE shardfdw_internal.revoke_command(format('%I.%I', parent_schema, name));
		IF key IS NULL AND shards IS NULL THEN
			PERFORM shardfdw.shard_table(made, colocate_with => last.partition, shards_in => shards_in);
		ELSE
			PERFORM shardfdw.shard_table(made, shards => shards, nodes => nodes, shards_in => shards_in);
		END IF;
		EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', relation, made,
			CASE WHEN has_zone THEN (starts AT TIME ZONE zone)::text ELSE starts::text END, CASE WHEN has_zone THEN (ends AT TIME ZONE zone)::text ELSE ends::text END);
		PERFORM shardfdw_internal.follow_siblings(made, ARRAY(SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = made));
		RETURN NEXT made;
		starts := ends;
	END LOOP;
	IF retention IS NOT NULL THEN
		PERFORM shardfdw.drop_old_time_partitions(relation, now() - retention);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw.create_time_partitions(regclass, interval, timestamptz, interval, name, integer) IS
	'Adds sharded time partitions to a table until one contains end_at or ends there, and drops partitions that are older than retention. partition_interval: interval that each partition covers. key, shards: of the new partitions; null for those of the last partition, on the same nodes. Returns the new partitions. Raises invalid_parameter_value for an interval that does not divide time evenly, wrong_object_type for a parent that is not partitioned by time, and the errors of CREATE TABLE and shard_table().';
