# ALTER EXTENSION shardfdw UPDATE must make what CREATE EXTENSION makes. The test compares the
# catalogs of an upgraded and of a new extension, object by object. It upgrades from each released
# version, and from the present version to one that the test makes.

use strict;
use warnings;

use ExtensionCatalog;
use ExtensionPackage;
use ShardServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $package = ExtensionPackage->new or plan(skip_all => 'needs the private installation that scripts/check makes');
my $server = ShardServer->new('server');
$server->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$server->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\n");
$server->start;

# Returns the differences between a fresh extension and one that was updated from a version, as one
# text.
my $n = 0;
sub upgrade_differs
{
	my ($from) = @_;
	my ($old, $new) = map { $_ . ++$n } qw(old new);

	$server->safe_psql('postgres', "CREATE DATABASE $_") for $old, $new;
	$server->safe_psql($new, 'CREATE EXTENSION shardfdw');
	$server->safe_psql($old, "CREATE EXTENSION shardfdw VERSION '$from'");
	$server->safe_psql($old, 'ALTER EXTENSION shardfdw UPDATE');
	return join "\n", differences(catalog_of($server, $new), catalog_of($server, $old));
}

# ---------- released versions ----------

$package->install;
my $present = $package->version;
note "released: $_" for $package->released;
is(upgrade_differs($_), '', "an upgrade from $_ to $present") for $package->released;

# ---------- the comparison detects differences ----------

$server->safe_psql('postgres', 'CREATE DATABASE present');
$server->safe_psql('present', 'CREATE EXTENSION shardfdw');
my $catalog = catalog_of($server, 'present');
is(join("\n", unknown_objects($catalog)), '', 'it knows the catalogs of all objects');
my %objects = map { s/: is member$//r => 1 } grep { /: is member$/ } keys %$catalog;
cmp_ok(scalar(keys %objects), '>', 100, 'it looks at all of them');
is(join("\n", differences($catalog, catalog_of($server, 'present'))), '', 'and says the same of the same twice');

# The owner of a database chooses settings that change the meaning of texts.
my %setting = (quote_all_identifiers => 'on', array_nulls => 'off', transform_null_equals => 'on',
	search_path => 'public', datestyle => 'German', intervalstyle => 'sql_standard', extra_float_digits => '0',
	row_security => 'off', check_function_bodies => 'on', default_toast_compression => 'pglz', bytea_output => 'escape');
$server->safe_psql('postgres', 'CREATE DATABASE chosen');
$server->safe_psql('postgres', "ALTER DATABASE chosen SET $_ = '$setting{$_}'") for sort keys %setting;
$server->safe_psql('chosen', 'CREATE EXTENSION shardfdw');
$server->safe_psql('postgres', "ALTER DATABASE chosen RESET $_") for sort keys %setting;
is(join("\n", differences($catalog, catalog_of($server, 'chosen'))), '', 'settings of a database do not matter');

# The one object of a type whose name is like that, without its type.
sub object
{
	my ($type, $name) = @_;
	my @found = grep { /^\Q$type\E (?:\w+\.)?\Q$name\E(?:\(|$)/ } keys %objects;

	die "not one $type $name: @found" if @found != 1;
	return $found[0] =~ s/^\Q$type\E //r;
}
my $function = object('function', 'remove_node');
my $view = object('view', 'nodes');
my $table = object('table', 'commit_log');
my $sequence = object('sequence', 'load_id');
my $column = $server->safe_psql('present', "SELECT attname FROM pg_attribute WHERE attrelid = '$table'::regclass AND attnum = 1");
my $viewed = $server->safe_psql('present', "SELECT attname FROM pg_attribute WHERE attrelid = '$view'::regclass AND attnum = 1");

my @mutations = (
	[ "ALTER FUNCTION $function SET work_mem = '1MB'",         "function $function: function" ],
	[ "ALTER FUNCTION $function STABLE",                       "function $function: function" ],
	[ "ALTER FUNCTION $function SECURITY DEFINER",             "function $function: function" ],
	[ "UPDATE pg_proc SET prosrc = prosrc || ' ' WHERE oid = '$function'::regprocedure", "function $function: function" ],
	[ "GRANT EXECUTE ON FUNCTION $function TO pg_monitor",     "function $function: function's owner and rights" ],
	[ "ALTER FUNCTION $function OWNER TO pg_monitor",          "function $function: function's owner and rights" ],
	[ "COMMENT ON FUNCTION $function IS 'x'",                  "function $function: comment" ],
	[ "COMMENT ON FUNCTION $function IS NULL",                 "function $function: comment" ],
	[ "ALTER EXTENSION shardfdw DROP FUNCTION $function",      "function $function: is member" ],
	[ "DROP EVENT TRIGGER \"00_shardfdw_change_nodes\"",       'event trigger "00_shardfdw_change_nodes": event trigger', 'ALTER EXTENSION shardfdw DROP EVENT TRIGGER "00_shardfdw_change_nodes"' ],
	[ "ALTER EVENT TRIGGER \"00_shardfdw_change_nodes\" ENABLE", 'event trigger "00_shardfdw_change_nodes": event trigger' ],
	[ "CREATE FUNCTION shardfdw.stray() RETURNS int LANGUAGE sql AS 'SELECT 1'", 'function shardfdw.stray(): function' ],
	[ "CREATE DOMAIN shardfdw.stray AS int CHECK (VALUE > 0)", 'type shardfdw.stray: constraint stray_check' ],
	[ "ALTER VIEW $view SET (security_barrier)",               "view $view: relation" ],
	[ "GRANT DELETE ON $view TO pg_monitor",                   "view $view: relation" ],
	[ "ALTER VIEW $view RENAME COLUMN $viewed TO renamed",        "view $view: query" ],
	[ "COMMENT ON COLUMN $view.$viewed IS 'x'",                   "view $view: comment on column $viewed" ],
	[ "CREATE RULE stray AS ON INSERT TO $view DO INSTEAD NOTHING", "view $view: rule stray" ],
	[ "ALTER TABLE $table ADD stray int",                      "table $table: column stray" ],
	[ "ALTER TABLE $table ALTER $column SET DEFAULT NULL; ALTER TABLE $table ALTER $column SET STATISTICS 7; ALTER TABLE $table ALTER $column SET (n_distinct = 7)", "table $table: column $column" ],
	[ "ALTER TABLE $table ADD CONSTRAINT stray CHECK (true)",  "table $table: constraint stray" ],
	[ "CREATE INDEX stray ON $table ($column)",                'index shardfdw\w*.stray: index' ],
	[ "GRANT SELECT ($column) ON $table TO pg_monitor",        "table $table: column $column" ],
	[ "ALTER TABLE $table SET (fillfactor = 50)",              "table $table: relation" ],
	[ "ALTER TABLE $table ENABLE ROW LEVEL SECURITY",          "table $table: relation" ],
	[ "CREATE POLICY stray ON $table",                         "table $table: policy stray" ],
	[ "CREATE TRIGGER stray BEFORE TRUNCATE ON $table EXECUTE FUNCTION suppress_redundant_updates_trigger()", "table $table: trigger stray" ],
	[ "ALTER SEQUENCE $sequence CACHE 7",                      "sequence $sequence: sequence" ],
	[ 'ALTER FOREIGN DATA WRAPPER shardfdw NO VALIDATOR',      'foreign-data wrapper shardfdw: wrapper' ],
	[ 'GRANT USAGE ON FOREIGN SERVER shardfdw_cluster TO pg_monitor', 'server shardfdw_cluster: server' ],
	[ 'GRANT CREATE ON SCHEMA shardfdw TO pg_monitor',         'schema shardfdw: schema' ],
	[ 'ALTER DEFAULT PRIVILEGES IN SCHEMA shardfdw GRANT SELECT ON TABLES TO PUBLIC', 'schema shardfdw: default privileges of r' ],
	[ "UPDATE pg_extension SET extcondition[1] = 'WHERE true' WHERE extname = 'shardfdw'", 'extension shardfdw: extension' ],
	[ "UPDATE pg_extension SET extversion = 'x' WHERE extname = 'shardfdw'", 'extension shardfdw: extension' ],
	[ "UPDATE pg_init_privs SET initprivs = '{}' WHERE objoid = '$view'::regclass AND objsubid = 0", "view $view: initial privileges" ],
	[ 'ALTER DATABASE present RESET session_preload_libraries', 'database: settings' ],
);
for my $mutation (@mutations)
{
	my ($sql, $expected, $first) = @$mutation;
	# the library's own checks are not tested here
	my @found = differences($catalog,
		catalog_of($server, 'present', join(";\n", 'BEGIN', 'SET LOCAL allow_system_table_mods = on', 'SET LOCAL client_min_messages = warning', $first // (), $sql), 'ROLLBACK'));

	ok((grep { index($_, $expected) >= 0 || /$expected/ } @found), "found: $sql") || diag(join "\n", "expected $expected", @found);
}
is(join("\n", differences($catalog, catalog_of($server, 'present'))), '', 'all of that has been rolled back');

# ---------- from the present version to a made-up one ----------

# For each change: the upgrade script's statement, the same change of the install script, and the
# difference that is found without the statement.
my $next = '99.0';
my $new_function = q{CREATE FUNCTION shardfdw.made_up(a integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT a'};
my $new_comment = q{COMMENT ON FUNCTION shardfdw.made_up(integer) IS 'Made up.'};
my @changes = (
	[ $new_function,                                        undef, undef, undef ],
	[ $new_comment,                                         undef, undef, 'lacks function shardfdw.made_up(integer): comment' ],
	[ 'REVOKE ALL ON FUNCTION shardfdw.made_up(integer) FROM PUBLIC', undef, undef, "function shardfdw.made_up(integer): function's owner and rights\nlacks function shardfdw.made_up(integer): initial privileges" ],
	[ "ALTER TABLE $table ADD made_up integer DEFAULT 7",   qr/(CREATE TABLE \w+\.commit_log \(.*?)(?=,\n\tPRIMARY KEY)/s, sub { "$1,\n\tmade_up integer DEFAULT 7" }, "lacks table $table: column made_up" ],
	[ "ALTER SEQUENCE $sequence CACHE 7",                   qr/(CREATE SEQUENCE \w+\.load_id);/, sub { "$1 CACHE 7;" }, "sequence $sequence: sequence" ],
	[ "COMMENT ON FUNCTION $function IS 'Changed.'",        qr/(COMMENT ON FUNCTION \w+\.remove_node\(name\) IS)\s+'(?:[^']|\'\')*'/, sub { "$1 'Changed.'" }, "function $function: comment" ],
	[ 'DROP FUNCTION shardfdw.forget_load(text, name)',      qr/CREATE FUNCTION shardfdw\.forget_load\(name text.*?;\nCOMMENT ON FUNCTION shardfdw\.forget_load\(text, name\) IS\n.*?;\n/s, sub { '' },
		join "\n", map { "has also function shardfdw.forget_load(pg_catalog.text,pg_catalog.name): $_" } 'comment', 'function', 'function\'s owner and rights', 'function\'s result', 'is member' ],
);

# The upgrade script without one of the changes.
sub script
{
	my ($without) = @_;
	return join '', map { "$changes[$_][0];\n" } grep { $_ != ($without // -1) } 0 .. $#changes;
}
is($package->begin($next, script()), $present, "$present as if it had been released, and $next");
append_to_file($package->tree . '/sql/install/99_made_up.sql', join '', map { "$_->[0];\n" } @changes[ 0 .. 2 ]);
$package->edit('sql/install/*.sql', $_->[1], $_->[2]) for grep { $_->[1] } @changes;
$package->install;
is(upgrade_differs($present), '', "an upgrade from $present to $next");
is($server->safe_psql("new$n", q{SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'}), $next, "to $next indeed");

# A script that has forgotten something
for my $without (grep { $changes[$_][3] } 0 .. $#changes)
{
	$package->edit("sql/shardfdw--$present--$next.sql", qr/.*/s, script($without));
	$package->install;
	# the message does not contain the difference itself
	is(upgrade_differs($present) =~ s/: ".*$//mgr, $changes[$without][3], "an upgrade without: $changes[$without][0]");
}

done_testing();
