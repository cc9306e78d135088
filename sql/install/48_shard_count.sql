-- Changes the number of shards of a whole table, by splits and merges.

CREATE FUNCTION shardfdw_internal.can_step(quotient bigint, largest_step integer) RETURNS boolean
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	FOR f IN 2 .. CASE WHEN quotient > 0 THEN shardfdw_internal.at_most(largest_step, 64) ELSE 0 END
	LOOP
		WHILE quotient % f = 0
		LOOP
			quotient := quotient / f;
		END LOOP;
	END LOOP;
	RETURN quotient = 1;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.can_step(bigint, integer) IS
	'Tells whether a number is a product of factors that are not larger than largest_step. Returns true or false.';

CREATE FUNCTION shardfdw_internal.sharding_step(relation regclass, shards integer) RETURNS TABLE (action text, members regclass[], pieces integer, target name)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	present regclass[];
	moduli bigint[];
	remainders bigint[];
	nodes name[];
	largest bigint;
	lower bigint;
	other record;
BEGIN
	IF sharding_step.relation IS NULL OR sharding_step.shards IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation, shards, mode and verify must not be null';
	END IF;
	IF sharding_step.shards NOT BETWEEN 1 AND 65536 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('a table cannot have %s shards', sharding_step.shards), HINT = 'It can have from 1 to 65536.';
	END IF;
	SELECT array_agg(s.shard ORDER BY s.shard::oid), array_agg(b.bound[1]::bigint ORDER BY s.shard::oid), array_agg(b.bound[2]::bigint ORDER BY s.shard::oid), array_agg(s.node ORDER BY s.shard::oid)
	INTO present, moduli, remainders, nodes
	FROM shardfdw.shards s LEFT JOIN LATERAL regexp_match(s.bounds, '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') AS b(bound) ON true
	WHERE s.relation = sharding_step.relation;
	IF present IS NULL THEN
		PERFORM shardfdw_internal.raise_other_kind(sharding_step.relation, 'sharded table');
	END IF;
	IF array_position(moduli, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('the number of shards of %s cannot be altered: it is not sharded by HASH', sharding_step.relation);
	END IF;
	SELECT m INTO largest FROM unnest(moduli) m WHERE m % sharding_step.shards <> 0 AND sharding_step.shards % m <> 0 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('table %s cannot have %s shards', sharding_step.relation, sharding_step.shards),
			DETAIL = format('It has shards of modulus %s, which is neither a factor nor a multiple of that.', largest);
	END IF;
	SELECT x.modulus, x.largest_step INTO other FROM unnest(moduli) m(modulus), LATERAL (SELECT m.modulus, CASE WHEN m.modulus < sharding_step.shards THEN 64 ELSE 16 END) x(modulus, largest_step)
	WHERE NOT shardfdw_internal.can_step(greatest(x.modulus, sharding_step.shards) / least(x.modulus, sharding_step.shards), x.largest_step) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('table %s cannot have %s shards', sharding_step.relation, sharding_step.shards),
			DETAIL = format(CASE other.largest_step WHEN 64 THEN 'A shard of modulus %s would have to be split into more than 64 shards in one step.'
				ELSE 'More than 16 shards of modulus %s would have to become one shard in one step.' END, other.modulus);
	END IF;
	-- The shards with the smallest modulus first. Core requires at each step that each modulus is a factor of the next larger one.
	RETURN QUERY SELECT 'split', ARRAY[x.shard], (SELECT max(d) FROM generate_series(2, 64) d WHERE sharding_step.shards / x.modulus % d = 0
			AND NOT EXISTS (SELECT FROM unnest(moduli) m WHERE m % (x.modulus * d) <> 0 AND x.modulus * d % m <> 0)), NULL::name
	FROM unnest(present, moduli) x(shard, modulus) WHERE x.modulus < sharding_step.shards ORDER BY x.modulus, x.shard::oid LIMIT 1;
	IF FOUND THEN
		RETURN;
	END IF;
	-- From the largest modulus down to the next modulus that exists or is wanted. There is no modulus between them, so the group is complete.
	largest := (SELECT max(m) FROM unnest(moduli) m);
	lower := greatest(sharding_step.shards, (SELECT max(m) FROM unnest(moduli) m WHERE m < largest));
	IF largest = sharding_step.shards THEN
		RETURN;
	END IF;
	lower := largest / (SELECT max(d) FROM generate_series(2, 16) d WHERE largest / lower % d = 0);
	RETURN QUERY
	WITH f AS (
		SELECT x.shard, x.node, first_value(x.node) OVER (ORDER BY x.shard::oid) AS place FROM unnest(present, moduli, remainders, nodes) x(shard, modulus, remainder, node)
		WHERE x.modulus = largest AND x.remainder % lower = (SELECT min(y.remainder % lower) FROM unnest(moduli, remainders) y(modulus, remainder) WHERE y.modulus = largest)
	)
	(SELECT 'move', ARRAY[f.shard], 1, f.place FROM f WHERE f.node <> f.place ORDER BY f.shard::oid LIMIT 1)
	UNION ALL
	SELECT 'merge', array_agg(f.shard ORDER BY f.shard::oid), 1, NULL FROM f HAVING bool_and(f.node = f.place);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.sharding_step(regclass, integer) IS
	'Finds the next step that changes the shards of a table by hash to this modulus. Returns one row: split, move or merge, the shards, the number of new shards, and the target node. Returns no row if nothing is left to do. Raises null_value_not_allowed, invalid_parameter_value or feature_not_supported.';

CREATE FUNCTION shardfdw_internal.run_sharding_step(action text, members regclass[], pieces integer, target name, mode text, verify boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	CASE action
		WHEN 'split' THEN
			RAISE NOTICE 'splitting shard % into %', members[1], pieces;
			PERFORM shardfdw.split_shard(members[1], pieces, mode, verify);
		WHEN 'move' THEN
			RAISE NOTICE 'moving shard % to node "%"', members[1], target;
			PERFORM shardfdw.move_shard(members[1], target, mode, verify);
		WHEN 'merge' THEN
			RAISE NOTICE 'merging shards %', array_to_string(members, ', ');
			PERFORM shardfdw.merge_shards(members, mode, verify);
	END CASE;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_sharding_step(text, regclass[], integer, name, text, boolean) IS
	'Runs a step that sharding_step() found. Returns nothing. Raises the errors of split_shard(), move_shard() and merge_shards().';

CREATE FUNCTION shardfdw.set_shard_count(relation regclass, shards integer, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.check_series('set_shard_count', mode, verify, wait);
	-- reject impossible changes now
	PERFORM count(s) FROM shardfdw_internal.sharding_step(relation, shards) s;
	RETURN shardfdw_internal.run_series('set_shard_count', relation, 0, jsonb_build_object('mode', mode, 'verify', verify, 'relation', relation::oid, 'shards', shards), wait);
END
$$;
COMMENT ON FUNCTION shardfdw.set_shard_count(regclass, integer, text, boolean, boolean) IS
	'Changes the number of shards of a table that is sharded by hash, and of the tables colocated with it. The new number must be a multiple or a factor of the present number. Shards are split or merged one after the other, each committed separately. Shards are moved to one node before they are merged. mode, verify: as for split_shard(). wait: true returns when all is done, false returns immediately. Background processes do the work; a rollback of this transaction does not undo it. After an interruption, finished steps are kept, and the next call continues. Returns the number of the job, which stops at the first error. Raises invalid_parameter_value, feature_not_supported and other errors before anything changes.';
REVOKE ALL ON FUNCTION shardfdw.set_shard_count(regclass, integer, text, boolean, boolean) FROM PUBLIC;
