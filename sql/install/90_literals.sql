-- What all functions need.

-- Literals are written and read in one way, whatever the session's setting: those in the bodies of functions, which are read when
-- they are first run, and those in the text of commands, which one function prints and another one runs. Read in
-- another way than it was printed, a literal of a table's owner could end before it does, and go on as a command.
-- Procedures that commit cannot have settings of their own: theirs have no backslashes, and run no text.
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
