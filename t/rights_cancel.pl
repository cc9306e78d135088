# Functions that every role may execute can be cancelled, whatever they get. Each that takes an
# array is called with huge arrays, is cancelled while it works on them, and must end soon.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

# Number of array elements for functions in C, and for functions in SQL and PL/pgSQL. A loop in C
# that does not check for interrupts takes longer than $most.
my ($nelements, $nelements_sql) = (1_000_000, 100_000);
# Seconds of CPU time that a call may use after it is cancelled. The load of the machine does not
# change them.
my $most = 1;

my $c = ShardCluster->new(nodes => 2, preload => 1);
$c->safe_psql(q{CREATE ROLE al LOGIN; SELECT shardfdw.add_user('al', password => 'x');
	CREATE SCHEMA al AUTHORIZATION al; GRANT USAGE ON FOREIGN SERVER node1, node2 TO al});
$c->safe_psql("ALTER USER MAPPING FOR al SERVER node$_
	OPTIONS (ADD password_required 'false')") for 1, 2;
$c->node_safe_psql($_, 'GRANT CREATE ON DATABASE postgres TO al') for 1, 2;
$c->safe_psql(q{SET ROLE al; CREATE TABLE al.t (id int PRIMARY KEY, v text);
	SELECT shardfdw.shard_table('al.t', shards => 2); CREATE TABLE al.plain (id int PRIMARY KEY)});

# Values of arguments, by their types. All elements of an array are the same, or all differ (%s is a
# number). With equal elements a function gets as far as possible.
my %scalars = (name => q{'node1'}, text => q{'read'}, boolean => 'false', jsonb => q{'{}'},
	'timestamp with time zone' => 'now()', regprocedure => q{'now()'}, '"char"' => q{'r'});
my %same = (bigint => '1', name => q{'node1'}, text => q{'al.t_00'}, regclass => q{'al.plain'},
	boolean => 'true', smallint => '1', oid => q{'al.t'::regclass}, jsonb => q{'{}'},
	'double precision' => '1', integer => '1', aclitem => q{'al=r/al'});
my %different = (%same, name => q{'n' || %s}, text => q{'s' || %s}, regclass => '16384 + %s',
	oid => '16384 + %s', 'double precision' => '%s', integer => '%s');

my $client;
sub cpu_seconds
{
	my ($pid) = @_;
	my @fields = split / /, slurp_file("/proc/$pid/stat") =~ s/.*\) //sr;
	return ($fields[11] + $fields[12]) / 100;
}

# Runs sql as al, and cancels it after so many seconds of CPU time. Returns the seconds of CPU time
# from then on, and the error.
sub run
{
	my ($sql, $cancel_at) = @_;
	$client //= WireClient->new($c->coordinator, 'postgres');
	my $pid = $client->query(q{SET ROLE al; SET lock_timeout = '10s';
		SELECT pg_backend_pid()})->{rows}[0][0];
	my ($before, $begun) = (cpu_seconds($pid), time);
	my ($cancelled, $result);
	$client->start_query($sql);
	until ($result = $client->finish_query(0.02))
	{
		next if $cancelled;
		my $used = cpu_seconds($pid) - $before;
		# 30 s: it waits
		next if $used < $cancel_at && time < $begun + 30;
		$client->cancel;
		$cancelled = $before + $used;
	}
	my $seconds = $cancelled ? cpu_seconds($pid) - $cancelled : 0;
	undef $client if $result->{error} && $result->{error}{S} eq 'FATAL';
	return ($seconds, $result->{error} ? $result->{error}{M} : '');
}

my $functions = $c->safe_psql(q{
	SELECT string_agg(format('%s %s %s', l.lanname, p.oid::regproc, (SELECT
		string_agg(format_type(t, NULL), ',' ORDER BY o)
		FROM unnest(p.proargtypes) WITH ORDINALITY a(t, o))), E'\n' ORDER BY l.lanname, p.proname)
	FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
	WHERE p.pronamespace IN ('shardfdw'::regnamespace, 'shardfdw_internal'::regnamespace)
		AND has_function_privilege('public', p.oid, 'EXECUTE') AND p.prokind = 'f'
		AND EXISTS (SELECT FROM unnest(p.proargtypes) t WHERE format_type(t, NULL) LIKE '%[]')});
my $ncalls = 0;
for my $function (split /\n/, $functions)
{
	my ($language, $name, $types) = $function =~ /^(\S+) (\S+) (.*)/;
	my @variants = ([ q{'al.t'}, \%same ]);
	push @variants, [ q{'al.t'}, \%different ] if $language eq 'c';
	push @variants, [ q{'al.plain'}, \%same ] if $language eq 'c' && $types =~ /regclass(,|$)/;
	for my $variant (@variants)
	{
		next unless ShardCluster::in_half($ncalls++);
		my ($relation, $elements) = @$variant;
		my $n = $language eq 'c' ? $nelements : $nelements_sql;
		my @args;
		for my $type (split /,/, $types)
		{
			my ($element) = $type =~ /(.*)\[\]/;
			my $value = $element ? $elements->{$element} // die "$name has a new type: $type"
				: $type eq 'regclass' ? $relation : $scalars{$type} // '1';
			$value = !$element ? $value
				: $value =~ /%s/ ? "ARRAY(SELECT $value FROM generate_series(1, $n) g)" =~ s/%s/g/r
				: "array_fill(CAST($value AS $element), ARRAY[$n])";
			push @args, "CAST($value AS $type)";
		}
		my ($seconds, $error) = run("SELECT count(*) FROM $name(" . join(', ', @args) . ')',
			$language eq 'c' ? 0.7 : 0.2);
		cmp_ok($seconds, '<', $most,
			"$name($types) of $relation, " . ($elements == \%same ? 'equal' : 'different'));
		note(sprintf '%.1f s: %s', $seconds, $error);
	}
}

done_testing();
