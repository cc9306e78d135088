# LevelTables.pm - tables of SqlRandom.pm with two levels: by range of a column, each partition by hash of the shard key
#
#   upper_key($table)               the column of the upper level; undef for a table that has no levels
#   partition_by($table)            what stands behind CREATE TABLE $table (...)
#   partitions($table, $sharded)    SQL that makes the partitions, and below them shards or plain partitions
#
# a and b are colocated, with a DEFAULT partition, as e has; x has no row without z, so that its partitions have an order. Partitions
# differ in their number of shards, and the second one of each table in the numbers of its columns.

package LevelTables;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(upper_key partition_by partitions);

my @of_ints = ([ 'FROM (MINVALUE) TO (3)', 2 ], [ 'FROM (3) TO (8)', 3 ], [ 'DEFAULT', 2 ]);
my %levels = (
	a => [ 'i', 'k', @of_ints ],
	b => [ 'i', 'k', @of_ints ],
	e => [ 'z', 'i', [ "FROM ('2024-03-01') TO ('2024-03-03')", 2 ], [ "FROM ('2024-03-03') TO ('2024-04-01')", 2 ], [ 'DEFAULT', 1 ] ],
	x => [ 'z', 't', [ "FROM (MINVALUE) TO ('2024-03-02')", 2 ], [ "FROM ('2024-03-02') TO ('2024-03-10')", 1 ], [ "FROM ('2024-03-10') TO (MAXVALUE)", 3 ] ]);

sub upper_key { return $levels{ $_[0] } && $levels{ $_[0] }[0]; }
sub partition_by { my $column = upper_key($_[0]); return $column ? " PARTITION BY RANGE ($column)" : ''; }

sub partitions
{
	my ($table, $sharded) = @_;
	my (undef, $key, @parts) = @{ $levels{$table} // [] };
	my $sql = '';

	for my $i (0 .. $#parts)
	{
		my ($bounds, $nshards) = @{ $parts[$i] };
		$bounds = "FOR VALUES $bounds" if $bounds ne 'DEFAULT';
		$sql .= $i == 1 ? "CREATE TABLE ${table}_$i (gone int, LIKE $table INCLUDING DEFAULTS INCLUDING GENERATED) PARTITION BY HASH ($key); ALTER TABLE ${table}_$i DROP COLUMN gone;\n"
		  : "CREATE TABLE ${table}_$i PARTITION OF $table $bounds PARTITION BY HASH ($key);\n";
		$sql .= $sharded ? "SELECT shardfdw.shard_table('${table}_$i', shards => $nshards);\n"
		  : join '', map { "CREATE TABLE ${table}_${i}_$_ PARTITION OF ${table}_$i FOR VALUES WITH (MODULUS $nshards, REMAINDER $_);\n" } 0 .. $nshards - 1;
		$sql .= "ALTER TABLE $table ATTACH PARTITION ${table}_$i $bounds;\n" if $i == 1;
	}
	return $sql;
}

1;
