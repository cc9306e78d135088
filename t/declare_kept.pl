# shard_table() and unshard_table() replace a table by another one. Tests that the new table has
# the privileges and comments of the old one, and no others, in both modes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);

$c->safe_psql(q{CREATE ROLE keeper; CREATE ROLE anna; CREATE ROLE "Bert"; CREATE ROLE carl;
	GRANT USAGE ON FOREIGN SERVER node1, node2 TO keeper;
	CREATE TABLE ref (id int PRIMARY KEY); GRANT SELECT, REFERENCES ON ref TO keeper;
	SELECT shardfdw.create_reference_table('ref')});
$c->safe_psql("CREATE USER MAPPING FOR keeper SERVER node$_
	OPTIONS (user 'postgres', password_required 'false')") for 1, 2;

# All privileges in a schema, with their grantors.
sub privileges
{
	my ($schema) = @_;
	return $c->safe_psql(qq{
		WITH c AS (SELECT *, CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char" AS kind
			FROM pg_class
			WHERE relnamespace = '$schema'::regnamespace AND relkind IN ('r', 'p', 'S'))
		SELECT x.what, string_agg(a::text, ' ' ORDER BY a::text COLLATE "C") FROM (
			SELECT relname, coalesce(relacl, acldefault(kind, relowner)) FROM c
			UNION ALL SELECT c.relname || '.' || a.attname, a.attacl
			FROM c JOIN pg_attribute a ON a.attrelid = c.oid
			UNION ALL SELECT 'type ' || relname, coalesce(t.typacl, acldefault('T', t.typowner))
			FROM c JOIN pg_type t ON t.oid = c.reltype) x(what, acl), unnest(x.acl) a
		GROUP BY 1 ORDER BY x.what COLLATE "C"});
}

# All comments in a schema.
sub comments
{
	my ($schema) = @_;
	return $c->safe_psql(qq{SELECT x.what, d.description FROM pg_description d,
			pg_describe_object(d.classoid, d.objoid, d.objsubid) x(what)
		WHERE description LIKE '$schema''s %' ORDER BY x.what COLLATE "C", 2});
}

# Foreign keys to reference tables are on the nodes only.
sub without_keys { return join "\n", grep { !/foreign key/ } split /\n/, $_[0]; }

for my $mode (qw(block online))
{
	$c->safe_psql(qq{CREATE SCHEMA $mode; GRANT ALL ON SCHEMA $mode TO PUBLIC;
		SET ROLE keeper; SET search_path = $mode, public;
		ALTER DEFAULT PRIVILEGES IN SCHEMA $mode GRANT DELETE ON TABLES TO carl;
		ALTER DEFAULT PRIVILEGES IN SCHEMA $mode GRANT USAGE ON SEQUENCES TO carl;
		CREATE TABLE "T" (id int CONSTRAINT key PRIMARY KEY, v text, s serial,
			i int GENERATED ALWAYS AS IDENTITY, w int CONSTRAINT positive CHECK (w > 0),
			r int CONSTRAINT "foreign key" REFERENCES ref, CONSTRAINT uq UNIQUE (id, v));
		CREATE INDEX "An index" ON "T" (v);
		CREATE STATISTICS stat ON v, w FROM "T";
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER trig BEFORE INSERT ON "T" FOR EACH ROW EXECUTE FUNCTION f();
		CREATE POLICY pol ON "T" USING (true);
		INSERT INTO "T" (id, v, w) SELECT g, g, g FROM generate_series(1, 9) g;

		REVOKE ALL ON "T" FROM carl; REVOKE ALL ON SEQUENCE "T_i_seq" FROM carl;
		REVOKE UPDATE, DELETE, INSERT ON "T" FROM keeper;
		GRANT UPDATE (w) ON "T" TO keeper;
		GRANT REFERENCES ON "T" TO keeper WITH GRANT OPTION;
		REVOKE UPDATE ON SEQUENCE "T_i_seq", "T_s_seq" FROM keeper;
		REVOKE USAGE ON TYPE "T" FROM keeper, PUBLIC;
		GRANT SELECT ON "T" TO anna WITH GRANT OPTION;
		GRANT SELECT, USAGE ON SEQUENCE "T_i_seq", "T_s_seq" TO anna WITH GRANT OPTION;
		GRANT UPDATE (v) ON "T" TO anna WITH GRANT OPTION;
		GRANT USAGE ON TYPE "T" TO anna WITH GRANT OPTION;
		SET ROLE anna;
		GRANT SELECT ON "T" TO "Bert" WITH GRANT OPTION;
		GRANT UPDATE (v) ON "T" TO "Bert";
		GRANT USAGE ON SEQUENCE "T_i_seq", "T_s_seq" TO "Bert" WITH GRANT OPTION;
		GRANT USAGE ON TYPE "T" TO "Bert" WITH GRANT OPTION;
		SET ROLE "Bert";
		GRANT SELECT (w) ON "T" TO carl;
		GRANT SELECT (ctid) ON "T" TO carl;
		GRANT SELECT ON "T" TO PUBLIC;
		GRANT USAGE ON SEQUENCE "T_i_seq" TO carl;
		GRANT USAGE ON TYPE "T" TO carl});
	my @described = ('TABLE "T"', 'COLUMN "T".v', 'TYPE "T"', 'TYPE "T"[]', 'INDEX "An index"',
		'INDEX key', 'CONSTRAINT key ON "T"', 'INDEX uq', 'CONSTRAINT positive ON "T"',
		'CONSTRAINT "foreign key" ON "T"', 'STATISTICS stat', 'TRIGGER trig ON "T"',
		'POLICY pol ON "T"', 'SEQUENCE "T_i_seq"', 'SEQUENCE "T_s_seq"');
	$c->safe_psql(qq{SET search_path = $mode; COMMENT ON $_ IS \$\$${mode}'s $_\$\$}) for @described;
	my ($privileges, $comments) = (privileges($mode), comments($mode));
	is(scalar(split /\n/, $comments), scalar(@described), "$mode: all comments");

	my $t = qq{$mode."T"};
	$c->safe_psql(qq{SET ROLE keeper;
		SELECT shardfdw.shard_table('$t', 'id', shards => 2, mode => '$mode')});
	is(privileges($mode), $privileges, "shard_table, $mode: privileges");
	is(without_keys(comments($mode)), without_keys($comments), "shard_table, $mode: comments");
	$c->psql_fails_like(qq{SET ROLE keeper; DELETE FROM $t WHERE id = 1}, qr/42501/,
		"shard_table, $mode: the owner has got back no right");
	is($c->safe_psql(qq{SELECT count(*) FROM $t}), 9, "shard_table, $mode: rows");

	$c->safe_psql(qq{SET ROLE keeper; SELECT shardfdw.unshard_table('$t', mode => '$mode')});
	is(privileges($mode), $privileges, "unshard_table, $mode: privileges");
	is(comments($mode), $comments, "unshard_table, $mode: comments");
	$c->psql_fails_like(qq{SET ROLE keeper; DELETE FROM $t WHERE id = 1}, qr/42501/,
		"unshard_table, $mode: the owner has got back no right");

	$c->safe_psql(qq{SET ROLE keeper; REVOKE ALL ON $t FROM anna CASCADE;
		REVOKE ALL ON SEQUENCE $mode."T_i_seq" FROM anna CASCADE;
		REVOKE ALL ON TYPE $t FROM anna CASCADE});
	# In PostgreSQL, the grants of Bert on columns stay: his grant option was on the table.
	unlike(privileges($mode) =~ s/^T[.](?:ctid|w)\|.*|^T_s_seq\|.*//gmr, qr/carl|Bert|anna/,
		"$mode: REVOKE ... CASCADE reaches the grants of other roles");
}

# An owner without the right to create triggers keeps the triggers of the table.
$c->safe_psql(q{CREATE SCHEMA own; GRANT ALL ON SCHEMA own TO PUBLIC; SET ROLE keeper;
	CREATE TABLE own.t (id int PRIMARY KEY);
	CREATE TRIGGER trig BEFORE INSERT ON own.t FOR EACH ROW EXECUTE FUNCTION block.f();
	REVOKE TRIGGER, UPDATE ON own.t FROM keeper});
my $before = privileges('own');
for my $call (q{shard_table('own.t', mode => 'block')}, q{unshard_table('own.t', mode => 'block')})
{
	$c->safe_psql("SET ROLE keeper; SELECT shardfdw.$call");
	is(privileges('own'), $before, "$call: an owner without the right to create triggers");
}

# ---------- security labels ----------

# A label is not lost. Without its provider, the table stays as it is.
for my $call (q{shard_table('own.t', mode => 'block')}, q{unshard_table('own.t', mode => 'block')})
{
	$c->psql_fails_like(qq{BEGIN;
		INSERT INTO pg_seclabel
			VALUES ('own.t'::regclass, 'pg_class'::regclass, 0, 'nowhere', 'secret');
		SELECT shardfdw.$call}, qr/security label provider "nowhere" is not loaded/,
		"$call: a security label");
	$c->safe_psql("SELECT shardfdw.$call");
}

# ---------- grant_as() ----------

my $other_command = qr/22023.*command is not a GRANT on one relation/;
for (
	[ 'anna', 'GRANT SELECT ON ref TO carl', qr/42501.*must be owner of table ref/ ],
	[ 'nobody', 'GRANT SELECT ON own.t TO carl', qr/42704.*role "nobody" does not exist/ ],
	[ 'anna', 'REVOKE SELECT ON own.t FROM carl', $other_command ],
	[ 'anna', 'GRANT SELECT ON ref, own.t TO carl', $other_command ],
	[ 'anna', 'GRANT SELECT ON own.t TO carl; DROP TABLE own.t', $other_command ],
	[ 'anna', 'GRANT anna TO carl', $other_command ],
	[ 'anna', 'GRANT ALL ON ALL TABLES IN SCHEMA own TO carl', $other_command ],
	[ 'anna', 'GRANT USAGE ON TYPE pg_catalog.int4 TO carl', $other_command ],
	[ 'anna', 'CREATE TABLE x ()', $other_command ],
	[ 'anna', 'GRANT SELECT ON own.t TO carl', qr/42501.*permission denied for table t/ ])
{
	my ($grantor, $command, $error) = @$_;
	$c->psql_fails_like(qq{SET ROLE keeper;
		SELECT shardfdw_internal.grant_as('$grantor', '$command')}, $error,
		"refused: $command, by $grantor");
}

# "$user" in search_path is another schema for the grantor. The command must not reach its tables.
$c->safe_psql(q{CREATE SCHEMA anna AUTHORIZATION anna; GRANT USAGE ON SCHEMA anna TO keeper;
	CREATE SCHEMA kept AUTHORIZATION keeper; GRANT USAGE ON SCHEMA kept TO anna;
	SET ROLE anna; CREATE TABLE anna.secret (v int);
	SET ROLE keeper; CREATE TABLE kept.secret (v int);
	GRANT SELECT ON kept.secret TO anna WITH GRANT OPTION});
for my $command ('SELECT ON secret', 'USAGE ON TYPE secret')
{
	# For the type, anna has no grant option: PostgreSQL warns, and writes the default privileges.
	$c->psql(qq{SET ROLE keeper; SET search_path = "\$user", kept;
		SELECT shardfdw_internal.grant_as('anna', 'GRANT $command TO carl')});
}
is($c->safe_psql(q{SELECT c.oid::regclass, has_table_privilege('carl', c.oid, 'SELECT'),
		t.typacl IS NOT NULL
	FROM pg_class c JOIN pg_type t ON t.oid = c.reltype WHERE c.relname = 'secret' ORDER BY 1}),
	"anna.secret|f|f\nkept.secret|t|t", 'the name is that of the caller, not of the grantor');

done_testing();
