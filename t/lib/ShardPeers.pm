# ShardPeers.pm - several coordinators of the same nodes for a TAP test
#
#   my $p = ShardPeers->new(coordinators => 3, nodes => 2);     # one ShardCluster with nodes, others without
#   $p->add_all;                                               # add_coordinator() for each, after the tables are made
#   $p->same($sql, $expected, $name); $p->all_alike($name);

package ShardPeers;

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More ();

# new(%options): coordinators, nodes, conf (lines for the coordinators' postgresql.conf), node_conf
sub new
{
	my ($class, %opt) = @_;
	my $conf = $opt{conf} // '';
	my $first = ShardCluster->new(nodes => $opt{nodes} // 2, preload => 1, coordinator_conf => $conf, node_conf => $opt{node_conf} // '');
	my @others = map { ShardCluster->new(nodes => 0, extension => 0, preload => 1, coordinator_conf => $conf) } 2 .. $opt{coordinators} // 2;

	return bless { all => [ $first, @others ], dir => PostgreSQL::Test::Utils::tempdir() }, $class;
}

sub all { return @{ $_[0]->{all} }; }

# The ShardCluster of coordinator $i, from 1. The first one has the nodes.
sub coordinator { return $_[0]->{all}[ $_[1] - 1 ]; }

# Arguments of add_coordinator() with the address of coordinator $i.
sub address
{
	my ($self, $i) = @_;
	my $server = $self->coordinator($i)->coordinator;

	return sprintf "'%s', %d, 'postgres'", $server->host, $server->port;
}

# Copies the definitions, and the rows of plain tables, of the first coordinator to coordinator $i.
sub restore
{
	my ($self, $i) = @_;
	my $dump = "$self->{dir}/dump";

	PostgreSQL::Test::Utils::system_or_bail('pg_dump', '-d', $self->coordinator(1)->coordinator->connstr('postgres'), '-f', $dump);
	local $ENV{PGOPTIONS} = '-c shardfdw.enable_ddl_propagation=off';
	PostgreSQL::Test::Utils::system_or_bail('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $self->coordinator($i)->coordinator->connstr('postgres'), '-f', $dump);
	return;
}

# Adds coordinator $i, named "c$i".
sub add
{
	my ($self, $i) = @_;

	$self->restore($i) if $i > 1;
	$self->coordinator(1)->safe_psql("SELECT shardfdw.add_coordinator('c$i', " . $self->address($i) . ')');
	return;
}

sub add_all
{
	my ($self) = @_;

	$self->add($_) for 1 .. $self->all;
	return;
}

# The same answer on all coordinators.
sub same
{
	my ($self, $sql, $expected, $name) = @_;
	my $i = 0;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	Test::More::is($_->safe_psql($sql), $expected, "$name, coordinator " . ++$i) for $self->all;
	return;
}

# check_cluster() finds nothing anywhere.  rows: rows of reference tables are compared, too.
# by: only coordinator number by (modulo their number) runs it. It compares all others with itself.
sub all_alike
{
	my ($self, $name, %opt) = @_;
	my $level = $opt{rows} ? 'rows' : 'definitions';
	my $problems = ShardCluster::problems("check_cluster('$level')");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return $self->same($problems, '', "$name: all have it") unless defined $opt{by};
	my $i = $opt{by} % @{ $self->{all} };
	my $found = $self->{all}[$i]->safe_psql($problems);
	return Test::More::is($found, '', "$name: all have it, as coordinator number $i says");
}

1;
