-- Plans as tests print them, for \i; made in the current schema, which search_path must name first.

-- Lines of a plan, one for each node: its type, and what a scan of ours sends. Says nothing that
-- differs from major to major.
CREATE FUNCTION walk(plan json, depth int, OUT line text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	child json;
BEGIN
	line := repeat('  ', depth) || COALESCE(plan ->> 'Custom Plan Provider', plan ->> 'Node Type') ||
		CASE WHEN plan ->> 'Partial Mode' <> 'Simple' THEN ' (' || (plan ->> 'Partial Mode') || ')' ELSE '' END ||
		COALESCE(' ' || (plan ->> 'Operation'), '') ||
		CASE WHEN plan ->> 'Filter' IS NOT NULL THEN ' filter' ELSE '' END ||
		COALESCE(' shards ' || (plan ->> 'Shards'), '') ||
		COALESCE(': ' || regexp_replace(plan ->> 'Remote SQL', ' AS (r1|shard_t1) ', ' \1 '), ''); -- 15 prints AS after the target of UPDATE and DELETE
	RETURN NEXT;
	FOR child IN SELECT * FROM json_array_elements(COALESCE(plan -> 'Plans', '[]')) LOOP
		RETURN QUERY SELECT * FROM walk(child, depth + 1);
	END LOOP;
END $$;

-- The plan of a query, or of EXECUTE.
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT * FROM walk(plan -> 0 -> 'Plan', 0);
END $$;
