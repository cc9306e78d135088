# The options of a foreign table that say where its replicas are name other nodes. Only a role that
# may use these nodes may name them.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1);
$c->safe_psql(q{CREATE ROLE al LOGIN; CREATE SCHEMA al AUTHORIZATION al;
	CREATE USER MAPPING FOR PUBLIC SERVER node2
		OPTIONS (user 'postgres', password_required 'false')});
$c->node_safe_psql(2, q{CREATE TABLE secret (id int, v text); INSERT INTO secret VALUES (1, 'a')});
# No server listens there, so replicas would be read.
$c->safe_psql(q{CREATE SERVER mine FOREIGN DATA WRAPPER shardfdw
		OPTIONS (host '127.0.0.1', port '1');
	GRANT USAGE ON FOREIGN SERVER mine TO al; SET ROLE al;
	CREATE USER MAPPING FOR al SERVER mine OPTIONS (user 'al', password 'x');
	CREATE TABLE al.p (id int, v text) PARTITION BY HASH (id)});

my $place = q{schema_name 'public', table_name 'secret'};
my %forms = (
	'a partition' => q{CREATE FOREIGN TABLE al.p_0 PARTITION OF al.p
		FOR VALUES WITH (MODULUS 1, REMAINDER 0)},
	'a foreign table' => 'CREATE FOREIGN TABLE al.alone (id int, v text)');
my $denied = qr/42501: permission denied for foreign server node2/;

# ---- CREATE FOREIGN TABLE ----------------------------------------------------------------------

sub fails
{
	my ($sql, $error, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->psql_fails_like("SET ROLE al; $sql; SELECT * FROM al.p;", $error, $name);
	$c->psql_fails_like("SET ROLE al; SET shardfdw.enable_ddl_propagation = off; $sql;", $error,
		"$name, without propagation");
	return;
}

for my $form (sort keys %forms)
{
	for my $option ('replica_nodes', 'stale_replica_nodes')
	{
		my $sql = "$forms{$form} SERVER %s OPTIONS ($place, $option '{%s}')";
		fails(sprintf($sql, 'mine', 'node2'), $denied, "$form: $option without USAGE");
		fails(sprintf($sql, 'mine', 'nix'), qr/42704: node "nix" does not exist/,
			"$form: $option that does not exist");
		$c->safe_psql('GRANT USAGE ON FOREIGN SERVER node1, node2 TO al');
		$c->safe_psql('BEGIN; SET ROLE al; ' . sprintf($sql, 'node1', 'node2') . '; ROLLBACK');
		pass("$form: $option by a role that may use the nodes, as in a dump");
		$c->safe_psql('REVOKE USAGE ON FOREIGN SERVER node1, node2 FROM al');
	}
}

# ---- changes afterwards ------------------------------------------------------------------------

$c->safe_psql('GRANT USAGE ON FOREIGN SERVER node1, node2 TO al');
$c->safe_psql(q{SET ROLE al; CREATE FOREIGN TABLE al.p_0 PARTITION OF al.p
	FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER node1 OPTIONS (replica_nodes '{node2}');
	CREATE FOREIGN TABLE al.single (id int) SERVER node1});
$c->safe_psql('REVOKE USAGE ON FOREIGN SERVER node2 FROM al');
for my $sql (
	q{ALTER FOREIGN TABLE al.single OPTIONS (ADD replica_nodes '{node2}')},
	q{ALTER FOREIGN TABLE al.single OPTIONS (ADD stale_replica_nodes '{node2}')},
	q{ALTER FOREIGN TABLE al.p_0 OPTIONS (ADD table_name 'secret', ADD schema_name 'public')},
	'ALTER FOREIGN TABLE al.p_0 RENAME TO secret',
	'ALTER FOREIGN TABLE al.p_0 SET SCHEMA public',
	'ALTER SCHEMA al RENAME TO other')
{
	$c->psql_fails_like("GRANT CREATE ON SCHEMA public TO al; GRANT CREATE ON DATABASE postgres TO al;
		SET ROLE al; SET shardfdw.enable_ddl_propagation = off; $sql;", $denied, $sql);
}
$c->psql_fails_like(q{SET ROLE al;
	SELECT shardfdw_internal.set_replica_nodes('al.single', '{node2}', '{}');}, $denied,
	'set_replica_nodes()');

done_testing();
