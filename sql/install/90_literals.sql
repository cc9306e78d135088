-- Settings that all functions need.

-- Literals are written and read in one way, whatever the settings of the session are. This applies to literals in the bodies of
-- functions, and to literals in commands that one function prints and another one runs. If a literal were read with another
-- setting than it was printed with, a literal of a table's owner could end early, and the rest would run as a command.
-- Procedures that commit cannot have SET clauses. Their literals have no backslashes, and they run no dynamic commands.
DO $$
DECLARE
	f pg_catalog.regprocedure;
BEGIN
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace::pg_catalog.regnamespace::text IN ('shardfdw', 'shardfdw_internal') AND l.lanname IN ('plpgsql', 'sql') AND p.prokind = 'f'
	LOOP
		EXECUTE pg_catalog.format('ALTER FUNCTION %s SET standard_conforming_strings = on', f);
	END LOOP;
END
$$;
