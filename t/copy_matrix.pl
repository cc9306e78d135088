# Runs COPY FROM a file into a sharded table and COPY FROM the same file into a plain table. Both
# must have the same rows, or the same error at the same line. CopyCases.pm makes the cases.
#
#   MATRIX_SEED=n    another seed
#   MATRIX_CASES=n   instead of the matrix: n random cases, and n of FIXED_WIDTH
#   MATRIX_ONLY=re   only groups whose name matches
#   MATRIX_DIAGS=n   explain up to n differences (60)
#
# Both tables have the same name, in the schemas p and s, so that messages need no translation. On
# the nodes every shard checks that its rows belong there.

use strict;
use warnings;

use CopyCases;
use CopyParts;
use ShardCluster;
use WireClient;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $per_test = 50;
my $ndiags   = 0;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "shared_buffers = 128MB\nwork_mem = 32MB\nmax_wal_size = 4GB\nlog_min_messages = fatal\n",
	node_conf        => "shared_buffers = 128MB\nmax_wal_size = 4GB\nlog_min_messages = fatal\n");
my $version = $c->safe_psql('SHOW server_version_num');
my $file    = PostgreSQL::Test::Utils::tempdir() . '/case';
my %databases = (utf8 => 'postgres', latin => 'latin', eucjp => 'eucjp');
my %client;
my %why_parsed;
my $nloaded = 0;
my $started = time;

# ---- tables --------------------------------------------------------------------------------------

my $types_sql = q{
	CREATE SCHEMA s;
	CREATE DOMAIN posint AS int CHECK (VALUE > 0);
	CREATE DOMAIN shorttext AS text CHECK (length(VALUE) < 6);
	CREATE TYPE compound AS (a int, d date)};
my $functions_sql = q{
	CREATE SCHEMA p;
	CREATE TABLE log (n bigint);
	CREATE FUNCTION volatile_seven() RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 7; END';
	CREATE SEQUENCE seq_p;
	CREATE SEQUENCE seq_s;
	CREATE FUNCTION mark_row() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.v = 'skip' THEN RETURN NULL; END IF;
		IF NEW.v = 'raise' THEN RAISE EXCEPTION 'not %', NEW.k; END IF;
		NEW.v := NEW.v || '!';
		RETURN NEW;
	END $$;
	CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		RAISE NOTICE '% % %', TG_OP, TG_LEVEL, TG_WHEN;
		RETURN NULL;
	END $$;
	CREATE FUNCTION copy_sub(command text, probe text, OUT state text, OUT message text, OUT context text, OUT n bigint, OUT sum text)
	LANGUAGE plpgsql AS $$
	BEGIN
		BEGIN
			EXECUTE command;
			EXECUTE probe INTO n, sum;
			RAISE EXCEPTION USING ERRCODE = 'ZZ000';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, context = PG_EXCEPTION_CONTEXT;
		END;
	END $$};

sub quote { my ($name) = @_; return $name if $name =~ /^[a-z]\w*$/; $name =~ s/"/""/g; return "\"$name\""; }

# The tables of one database.
sub make_tables
{
	my ($db, @tables) = @_;
	my $client = WireClient->new($c->coordinator, $databases{$db});
	my $run = sub {
		my ($server, $sql) = @_;
		my $result = $server->query($sql);
		BAIL_OUT("$result->{error}{M}: $sql") if $result->{error};
	};
	my @nodes = map { WireClient->new($_, $databases{$db}) } $c->nodes;

	$run->($_, "SET client_encoding = 'UTF8'; $types_sql") for $client, @nodes;
	$run->($client, $functions_sql);
	for my $table (@tables)
	{
		my $name = quote($table->{name});
		my $partitioned = "PARTITION BY $table->{strategy} ($table->{key})";
		my $shards = @{ $table->{bounds} };

		for my $s (qw(p s))
		{
			(my $columns = $table->{columns}) =~ s/\{s\}/$s/;
			my $single = $s eq 's' && $table->{plain} && $table->{key} !~ /,/;
			$run->($client, "CREATE TABLE $s.$name ($columns)" . ($single || $table->{plain} && $s eq 'p' ? '' : " $partitioned"));
			(my $after = $table->{after}) =~ s/\{t\}/$s.$name/g;
			$run->($client, $after) if $after;
			if ($s eq 's' && $table->{plain})
			{
				(my $key = $table->{key}) =~ s/^"|"$//g;
				$run->($client, 'SELECT shardfdw.shard_table(' . sql_literal("s.$name") . ($single ? ", '$key'" : '') . ", shards => $shards)");
			}
			elsif (!$table->{plain})
			{
				for my $i (0 .. $shards - 1)
				{
					my $bounds = $table->{bounds}[$i];
					(my $shard = "$table->{name}_$i") =~ s/"/""/g;
					my $node = 'node' . (1 + $i % 2);
					(my $for = $bounds) =~ s/^(?!DEFAULT)/FOR VALUES /;
					$run->($client, $s eq 'p' ? "CREATE TABLE p.\"$shard\" PARTITION OF p.$name $for"
						: 'SELECT shardfdw.create_shard(' . sql_literal("s.$name") . ", '$shard', " . sql_literal($bounds) . ", '$node')");
				}
			}
		}

		# The node refuses rows of another shard: core's hash function gets the key from a
		# partitioned table on the node.
		next if $table->{strategy} ne 'HASH';
		my $routed = quote("routed_$table->{name}");
		my $rows = $client->query('SELECT shard, node, bounds FROM shardfdw.shards WHERE relation = ' . sql_literal("s.$name") . '::regclass')->{rows};
		BAIL_OUT("$name has " . @$rows . ' shards') unless @$rows == $shards;
		for (@$rows)
		{
			my ($shard, $node, $bounds) = @$_;
			my $server = $nodes[ $node =~ s/node//r - 1 ];
			my ($modulus, $remainder) = $bounds =~ /modulus (\d+), remainder (\d+)/i or BAIL_OUT("bounds $bounds");
			$run->($server, "CREATE TABLE IF NOT EXISTS s.$routed (LIKE $shard) $partitioned");
			$run->($server,
				"ALTER TABLE $shard ADD CONSTRAINT routed CHECK (satisfies_hash_partition(" . sql_literal("s.$routed") . "::regclass, $modulus, $remainder, $table->{key}))");
		}
	}
	return;
}

my @tables = copy_tables();
for my $db (qw(latin eucjp))
{
	my $encoding = $db eq 'latin' ? 'LATIN1' : 'EUC_JP';
	$_->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0 ENCODING '$encoding'") for $c->coordinator, $c->nodes;
	$c->coordinator->safe_psql($db, 'CREATE EXTENSION shardfdw');
	for my $i (1 .. 2)
	{
		my ($host, $port) = $c->node_address($i);
		$c->coordinator->safe_psql($db, "SELECT shardfdw.add_node('node$i', '$host', $port, '$db')");
	}
	make_tables($db, grep { $_->{encodings} } @tables);
}
make_tables('utf8', @tables);
my %table = map { $_->{name} => $_ } @tables;
note sprintf 'tables: %.1f s', time - $started;

# ---- one case ------------------------------------------------------------------------------------

# Names of partitions, and of the schema, in messages.
sub plain_words
{
	my ($text) = @_;
	$text //= '';
	$text =~ s/(relation "[^"]*?)_\d+"/$1"/g;
	$text =~ s/\b[ps]\.(?=\S)//g;
	return $text;
}

# Returns the result of a COPY into the table of one schema, as one string.
sub outcome
{
	my ($case, $schema) = @_;
	my $client = $client{ $case->{db} };
	my $name   = "$schema." . quote($case->{table});
	if ($case->{mode} ne 'stdin' && !defined $case->{source})
	{
		open my $fh, '>:raw', $file or die "could not write $file: $!";
		print $fh $case->{data};
		close $fh;
	}
	my $source = $case->{source} // ($case->{mode} eq 'program' ? "PROGRAM 'cat $file'" : $case->{mode} eq 'stdin' ? 'STDIN' : "'$file'");
	my $copy   = "COPY $name$case->{columns} FROM $source" . ($case->{options} ? " ($case->{options})" : '') . ($case->{where} ? " WHERE $case->{where}" : '');
	my $probe  = $case->{probe} // q{SELECT count(*), md5(string_agg(t::text, E'\n' ORDER BY t::text COLLATE "C")) FROM {t} t};
	my ($result, $rows, @messages);
	my @data;

	$probe =~ s/\{t\}/$name/;
	if ($case->{mode} eq 'stdin')
	{
		my $at = 0;
		for my $n (@{ $case->{cuts} })
		{
			last if $at >= length $case->{data};
			push @data, substr $case->{data}, $at, $n;
			$at += $n;
		}
		push @data, substr $case->{data}, $at if $at < length $case->{data};
	}
	my $set = join '', map { "SET LOCAL $_;" } split /; /, $case->{set};
	$client->query("SELECT setval('seq_$schema', 1, false); ALTER SEQUENCE $schema.idents_i_seq RESTART") if $case->{table} =~ /^(defs|idents)$/;
	if ($case->{mode} eq 'top')
	{
		(my $session = $set) =~ s/SET LOCAL/SET/g;
		$client->query($session) if $set;
		$result = $client->query($copy, @data);
		$rows = $result->{error} ? [] : $client->query($probe)->{rows};
		$client->query("TRUNCATE $name") unless $result->{error};
		$client->query('RESET ALL; SET client_min_messages = debug1') if $set;
		$result->{tags} = [ map { /^COPY \d+$/ ? $_ : () } @{ $result->{tags} } ];
	}
	elsif ($case->{mode} eq 'sub')
	{
		$client->query("BEGIN;$set");
		$result = $client->query('SELECT * FROM copy_sub(' . sql_literal($copy) . ',' . sql_literal($probe) . ')');
		$client->query('ROLLBACK');
		if (!$result->{error})
		{
			my ($state, $message, $context, $n, $sum) = @{ $result->{rows}[0] };
			if ($state eq 'ZZ000') { $rows = [ [ $n, $sum ] ]; }
			else                   { $result->{error} = { C => $state, M => $message, W => $context }; }
		}
		$result->{tags} = [];
	}
	else
	{
		$client->query("BEGIN;$set");
		$result = $client->query("$copy;$probe", @data);
		$client->query('ROLLBACK');
		$rows = $result->{rows};
		$result->{tags} = [ map { /^COPY \d+$/ ? $_ : () } @{ $result->{tags} } ];
	}
	for (@{ $result->{notices} })
	{
		push @messages, "$_->{C} $_->{M}" unless $_->{V} eq 'DEBUG';
		next unless $_->{V} eq 'DEBUG' && $_->{M} =~ /^COPY .*: (?:(lines are forwarded)|rows are parsed on the coordinator: (.*))/;
		$case->{raw} = defined $1;
		$why_parsed{$2}++ if defined $2;
	}

	if (my $error = $result->{error})
	{
		my ($place) = ($error->{W} // '') =~ /^(COPY .*)$/m;
		return "error $error->{C}" if ($case->{loose} // 0) == 2;
		# A refused row: the line's number counts, not its text.
		$place = ($place // '') =~ /^(COPY .*?, line \d+)/ ? $1 : '' if $case->{loose} || $error->{C} =~ /^23/;
		# Nodes' messages of more than 16 kB are cut.
		return plain_words(join "\n", "error $error->{C}", $case->{loose} ? () : substr($error->{M}, 0, 1000), $place // '', @messages);
	}
	return plain_words(join "\n", 'rows', map({ $_ // '' } @{ $rows->[0] // [] }), @{ $result->{tags} }, @messages);
}

sub hexdump
{
	my ($bytes) = @_;
	my $dump = '';
	my $total = length $bytes;

	$bytes = substr($bytes, 0, 200) . substr $bytes, -400 if $total > 800;
	for (my $i = 0; $i < length $bytes; $i += 24)
	{
		my $part = substr $bytes, $i, 24;
		$dump .= sprintf "  %-72s %s\n", join(' ', map { sprintf '%02x', ord } split //, $part), $part =~ tr/ -~/./cr;
	}
	return "  $total bytes" . ($total > 800 ? ', the first 200 and the last 400' : '') . ":\n$dump";
}

# Core stores and prints these values, but does not accept them in binary. Parsed mode cannot send
# them, the query cannot fetch them, and error messages that contain them are cut.
sub known_difference
{
	my ($case, $plain, $sharded) = @_;
	my ($state) = $plain =~ /^error (\S+)/;
	my ($other_state) = $sharded =~ /^error (\S+)/;

	return 0 unless $case->{binary_fails} && defined $other_state;
	return $other_state eq $case->{binary_fails} || $other_state eq ($state // '');
}

# True when both tables agree.
sub run_case
{
	my ($case) = @_;

	my $other = $case->{sharded} ? { %$case, %{ $case->{sharded} } } : $case;
	my ($plain, $sharded) = (outcome($case, 'p'), outcome($other, 's'));
	$case->{raw} = $other->{raw};
	$nloaded++ if $plain =~ /^rows/;
	return 1 if $plain eq $sharded || known_difference($case, $plain, $sharded);
	if ($ndiags++ < ($ENV{MATRIX_DIAGS} || 60))
	{
		diag "$case->{group} #$case->{no}: COPY $case->{table}$case->{columns} FROM " . ($case->{source} // $case->{mode}) . " ($case->{options}) $case->{where} $case->{set} $case->{db}"
		  . ($case->{mode} eq 'stdin' ? ' messages ' . join ',', @{ $case->{cuts} }[ 0 .. ($#{ $case->{cuts} } > 20 ? 20 : $#{ $case->{cuts} }) ] : '');
		s/([^\n -~])/sprintf '\\x%02x', ord $1/ge for $plain, $sharded;
		diag "plain:   " . $plain =~ s/\n/\n         /gr . "\nsharded: " . $sharded =~ s/\n/\n         /gr;
		diag hexdump($case->{data});
		diag "sharded: $other->{options}\n", hexdump($other->{data}) if $other != $case;
	}
	return 0;
}

# ---- a shard refuses rows of other shards --------------------------------------------------------

{
	my $shard = ($c->shards_of('s.ints'))[0];
	my ($i) = $shard->[1] =~ /(\d+)/;
	my ($rc, undef, $err) = $c->node_psql($i, "INSERT INTO $shard->[0] SELECT g FROM generate_series(1, 20) g");
	like($err, qr/violates check constraint "routed"/, 'rows of other shards are refused on the node');
}

# ---- all -----------------------------------------------------------------------------------------

my $seed = $ENV{MATRIX_SEED} || 20261120;
my $cases = $ENV{MATRIX_CASES} ? random_cases($seed, $version, $ENV{MATRIX_CASES}) : copy_cases($seed, $version);
my (%count, %seconds);
my ($nraw, $nequal, $no) = (0, 0, 0);

$_->{no} = $no++ for @$cases;
@$cases = grep { ShardCluster::in_half($_->{no}) } @$cases;
@$cases = grep { $_->{group} =~ /$ENV{MATRIX_ONLY}/ } @$cases if $ENV{MATRIX_ONLY};
for my $db (sort keys %databases)
{
	$client{$db} = WireClient->new($c->coordinator, $databases{$db});
	$client{$db}->query('SET client_min_messages = debug1');
}

my @rest = @$cases;
while (@rest)
{
	my $group = $rest[0]{group};
	my @part;
	my ($ngood, $start) = (0, time);
	while (@rest && @part < $per_test && $rest[0]{group} eq $group) { push @part, shift @rest; }
	$ngood += run_case($_) for @part;
	$nraw += $_->{raw} ? 1 : 0 for @part;
	$seconds{$group} += time - $start;
	$nequal += $ngood;
	$count{$group} += @part;
	is($ngood, scalar @part, "$group: cases up to $count{$group}");
}
note sprintf '%-22s %5d cases, %5.1f s', $_, $count{$_}, $seconds{$_} for sort keys %count;
note sprintf '%5d parsed on the coordinator: %s', $why_parsed{$_}, $_ for sort keys %why_parsed;
note sprintf '%d cases compared, %d equal, %d of them loads without an error, %d in raw mode, %.1f s', scalar @$cases, $nequal, $nloaded, $nraw, time - $started;
unless ($ENV{MATRIX_CASES} || $ENV{MATRIX_ONLY})
{
	my $least = ShardCluster::halved() ? 1500 : 3000;
	cmp_ok($nequal,  '>=', $least, "at least $least cases were compared and equal");
	cmp_ok($nloaded, '>=', $least, "at least $least of them load rows");
	cmp_ok($nraw,    '>=', $least, "at least $least of them in raw mode");
}
done_testing();
