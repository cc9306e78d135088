-- Settings that all functions need.

-- Literals are written and read in one way, whatever the settings of the session are. This applies to literals in the bodies of
-- functions, and to literals in commands that one function prints and another one runs. If a literal were read with another
-- setting than it was printed with, a literal of a table's owner could end early, and the rest would run as a command.
-- The owner of a database chooses the settings of its sessions. src/own_sql.c fixes the same settings for SQL of the library.
-- Procedures that commit cannot have SET clauses. Their literals have no backslashes, and they run no dynamic commands.
DO $$
DECLARE
	f pg_catalog.regprocedure;
BEGIN
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace IN ('shardfdw'::pg_catalog.regnamespace, 'shardfdw_internal'::pg_catalog.regnamespace) AND l.lanname IN ('plpgsql', 'sql') AND p.prokind = 'f'
	LOOP
		EXECUTE pg_catalog.format('ALTER FUNCTION %s SET standard_conforming_strings = on SET array_nulls = on SET transform_null_equals = off SET quote_all_identifiers = off', f);
	END LOOP;
	-- Definitions are written with all digits, and in forms that every session reads alike. Sessions on nodes follow these settings while
	-- a function runs that compares definitions. No time zone is needed: the ISO form has the offset.
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace IN ('shardfdw'::pg_catalog.regnamespace, 'shardfdw_internal'::pg_catalog.regnamespace) AND l.lanname IN ('plpgsql', 'sql') AND p.prokind = 'f'
			AND p.prosrc ~ 'pg_get_(constraintdef|expr|indexdef|statisticsobjdef|triggerdef|functiondef)|describe_query|describe_tables|compare_objects|object_query'
			AND pg_catalog.array_to_string(p.proconfig, ',') !~* 'datestyle='
	LOOP
		EXECUTE pg_catalog.format('ALTER FUNCTION %s SET datestyle = ''ISO'' SET intervalstyle = ''postgres'' SET extra_float_digits = 3', f);
	END LOOP;
END
$$;
