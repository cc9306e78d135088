# PlannerModes.pm - settings under which a planner goes ways that it seldom goes, chosen at random
#
#   my $modes = PlannerModes->new($node);       # a connection to ask for settings: safe_psql
#   my @names = $modes->choose;                 # some of $modes->names, by rand()
#   my @settings = $modes->settings(@names);    # 'name = value'
#
# Modes that are no setting: "prepared" (the statement is run several times with a generic or a custom plan), "cursor"
# (its rows are fetched in parts). PLANNER_MODES=a,b,... in the environment: all of these and no others;
# "discard" (caches are thrown away all the time) is for servers with assertions; it is slow, and chosen in one case of fifty, or in
# the part that PLANNER_DISCARD says.

package PlannerModes;

use strict;
use warnings;

use Carp;

my %fixed = (
	geqo          => [ 'geqo = on', 'geqo_threshold = 2' ],
	join_limit    => ['join_collapse_limit = 1'],
	from_limit    => ['from_collapse_limit = 1'],
	both_high     => [ 'join_collapse_limit = 32', 'from_collapse_limit = 32', 'geqo_threshold = 9' ],
	partitionwise => [ 'enable_partitionwise_join = on', 'enable_partitionwise_aggregate = on' ],
	parallel      => [ 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'min_parallel_index_scan_size = 0', 'max_parallel_workers_per_gather = 2' ],
	jit           => [ 'jit = on', 'jit_above_cost = 0', 'jit_inline_above_cost = 0', 'jit_optimize_above_cost = 0' ],
	little_memory => [ "work_mem = '64kB'", 'hash_mem_multiplier = 1' ],
	few_rows      => ['cursor_tuple_fraction = 0.001'],
	per_node      => ['shardfdw.query_per_node = on'],
	per_shard     => ['shardfdw.query_per_node = off'],
	one_connection => ['shardfdw.max_connections_per_node = 1'],
	cluster       => ["shardfdw.snapshot = 'cluster'"],
	generic       => ['plan_cache_mode = force_generic_plan'],
	custom        => ['plan_cache_mode = force_custom_plan'],
	cursor        => [],
	prepared      => []);

sub new
{
	my ($class, $node) = @_;
	my %settings = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', q{LOAD 'shardfdw'; SELECT name FROM pg_settings WHERE name ~ '^(shardfdw[.])?enable_' AND vartype = 'bool' OR name ~ '(force_parallel_mode|debug_parallel_query|debug_discard_caches|^jit$)'});
	my %modes = %fixed;

	$modes{forced_parallel} = [ @{ $fixed{parallel} }, (grep { $settings{$_} } qw(debug_parallel_query force_parallel_mode))[0] . ' = on' ];
	$modes{discard} = ['debug_discard_caches = 1'];
	$modes{"no $_"} = ["$_ = off"] for grep { /enable_/ && !/partitionwise|ddl_propagation/ } keys %settings;

	my $asserts = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
	my @names = grep { $_ ne 'discard' } sort keys %modes;
	my @wanted = split /,/, $ENV{PLANNER_MODES} // '';
	$modes{$_} or croak "there is no mode \"$_\"; there are: @{[ join ', ', sort keys %modes ]}" for @wanted;
	return bless { asserts => $asserts, modes => \%modes, names => \@names, wanted => \@wanted }, $class;
}

sub names { return @{ $_[0]{wanted} } ? @{ $_[0]{wanted} } : @{ $_[0]{names} }; }

# None in one case of eight, else one to five. Large modes are chosen as often as all enable_*
# together.
sub choose
{
	my ($self) = @_;
	my %chosen;

	return @{ $self->{wanted} } if @{ $self->{wanted} };
	return if rand() < 0.125;
	$chosen{discard} = 1 if rand() < ($ENV{PLANNER_DISCARD} // 0.02) && $self->{asserts};
	my @large = grep { !/^no / } $self->names;
	my @small = grep { /^no / } $self->names;
	for (1 .. 1 + int rand 5)
	{
		my $from = rand() < 0.6 ? \@large : \@small;
		$chosen{ $from->[ int rand @$from ] } = 1;
	}
	return sort keys %chosen;
}

sub settings
{
	my ($self, @names) = @_;
	return map { @{ $self->{modes}{$_} } } @names;
}

1;
