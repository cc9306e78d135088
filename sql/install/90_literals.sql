-- What all functions need.

-- Literals with backslashes in the bodies are read when they are first run, under the session's settings. Procedures that
-- commit cannot have settings of their own: theirs have no backslashes.
DO $$
DECLARE
	f pg_catalog.regprocedure;
BEGIN
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace::pg_catalog.regnamespace::text IN ('shardfdw', 'shardfdw_internal') AND l.lanname IN ('plpgsql', 'sql') AND p.prokind = 'f'
			AND pg_catalog.strpos(p.prosrc, pg_catalog.chr(92)) > 0
	LOOP
		EXECUTE pg_catalog.format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
	END LOOP;
END
$$;
