# Random scripts of DML and DDL on sharded tables against the same scripts on plain ones: after each statement the
# same SQLSTATE, command tag and rows, and the same contents of all tables. DmlRandom.pm makes the scripts.
#
#   DML_SEED=n        the seed of the first script; each has its own, one more than the one before
#   DML_STATEMENTS=n  how many statements
#   DML_SECONDS=n     no new script after so many seconds
#   DML_LENGTH=n      statements of one script (90)
#   DML_LEVELS=n      each n-th script has tables of two levels (3); 0: none
#   DML_FEATURES=s    comma-separated: only these kinds of statements (DmlRandom.pm has their names)
#   DML_SWITCHES=s    "name = value; ..." for every sharded run, instead of random settings
#   DML_MODES=1       modes of the planner at random (PlannerModes.pm), instead of random settings
#   DML_ERRORS=1      print what fails in both runs
#   DML_SHOW=1        print every statement
#   DML_MINIMISE=n    try so many times to make a script that differs shorter (30)
#
# Both runs use the same names, in the schemas p and s, and one session for each script; the sharded one has switches of
# core's planner and of shardfdw on or off at random. An internal error, or a connection that breaks, is a failure whatever the other run says.

use strict;
use warnings;

use DmlRandom;
use PlannerModes;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time);
use WireClient;

my $default     = !$ENV{DML_STATEMENTS};
my $seed        = $ENV{DML_SEED} || 1;
my $nstatements = $ENV{DML_STATEMENTS} || 810;
my $seconds     = $ENV{DML_SECONDS} || 0;
my $length      = $ENV{DML_LENGTH} || 90;
my $levels      = $ENV{DML_LEVELS} // 3;
my $tries       = $ENV{DML_MINIMISE} // 30;
my @features    = $ENV{DML_FEATURES} ? split /,/, $ENV{DML_FEATURES} : @DmlRandom::features;
my $max_diags   = 12;

# What docs/limits.md says is refused on sharded tables, or answered in another way: the statement, the SQLSTATE of the
# sharded table, why, and "role" when it is so for a user with row security only, "triggers" when for tables with triggers,
# "repeatable" when at REPEATABLE READ, "levels" when for tables of two levels. The plain run then gets an error in the place of the statement.
my @refused = (
	[ qr/^MERGE INTO [ab] AS q USING .* ON q.k = s.k (?!AND q.i = s.i)/, qr/0A000/, 'MERGE whose ON has no equality with both keys', 'levels' ],
	[ qr/^MERGE INTO .* SET .*\bSELECT/s, qr/0A000/, 'MERGE with a sub-select in SET' ],
	[ qr/^MERGE INTO .* (?:ON|WHEN) .*(?:\bto_char|COLLATE other)/s, qr/0A000/, 'MERGE with what depends on the locale' ],
	[ qr/^MERGE INTO x /, qr/0A000/, 'MERGE with row security', 'role' ],
	[ qr/^MERGE INTO [exg] /, qr/0A000/, 'MERGE whose ON has no equality with the shard key' ],
	[ qr/^ALTER TABLE .* (ALTER|DROP) COLUMN id\b/, qr/42P16/, 'the shard key dropped, or of another type' ],
	[ qr/^ALTER TABLE .* ADD COLUMN .* IDENTITY/, qr/42P16/, 'an identity column added to a partitioned table' ],
	[ qr/^ALTER TABLE .* ADD COLUMN (\S+|".*") int .* ALTER COLUMN \1 SET NOT NULL/, qr/42703/, 'SET NOT NULL of a column that the same ALTER TABLE adds to a partitioned table' ],
	[ qr/^(?:WITH .*)?MERGE INTO (\S+) .*WHEN /s, qr/0A000/, 'MERGE on a table with triggers', 'triggers' ],
	[ qr/^(?:WITH .*)?UPDATE (\S+) .*SET/s, qr/0A000/, 'the shard key changed where triggers would have to be fired', 'triggers' ],
	[ qr/^(?:EXECUTE)/s, qr/0A000/, 'a prepared statement of that kind', 'any triggers' ],
	[ qr/^ALTER TABLE (\S+) ADD COLUMN .*(?:serial|IDENTITY)/, qr/0A000/, 'a column filled row by row where triggers would fire', 'triggers' ],
	[ qr/^ALTER TABLE (\S+) ADD COLUMN .*(?:serial|IDENTITY)/, qr/0A000/, 'a column filled row by row at REPEATABLE READ', 'repeatable' ],
	[ qr/^CREATE TRIGGER .* REFERENCING|^CREATE CONSTRAINT TRIGGER/, qr/0A000|42809/, 'triggers with transition tables, constraint triggers' ],
	[ qr/^REINDEX/, qr/25001/, 'REINDEX of a partitioned table inside a transaction' ],
	[ qr/UNIQUE|PRIMARY KEY/, qr/0A000/, 'a unique key without the shard key' ],
);
# Which of the errors of several rows comes first depends on the order in which rows are written: codes of one class are as good as each other.
my $row_errors = qr/^(?:22|23|21|44|42501)/;

my $c = ShardCluster->new(
	nodes            => 2,
	coordinator_conf => "log_min_messages = fatal\n",
	node_conf        => "log_min_messages = fatal\n");
my $started = time;
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);

# ---- what both runs share ------------------------------------------------------------------------

my ($collation) = grep { ($c->psql("CREATE COLLATION public.other ($_)"))[0] == 0 }
  ("provider = icu, locale = 'de'", "locale = 'en_US.utf8'", "locale = 'C.utf8'", "locale = 'POSIX'");
for my $server ($c->coordinator, $c->nodes)
{
	$server->safe_psql('postgres', 'CREATE ROLE dml_user LOGIN; GRANT USAGE ON SCHEMA public TO dml_user');
	$server->safe_psql('postgres', "CREATE COLLATION public.other ($collation)") if $server != $c->coordinator;
}
$c->safe_psql("CREATE USER MAPPING FOR dml_user SERVER node$_ OPTIONS (user 'dml_user', password_required 'false')") for 1, 2;
my @switches = split /\n/, $c->safe_psql("LOAD 'shardfdw'; SELECT name FROM pg_settings WHERE name LIKE 'shardfdw.enable%' AND name <> 'shardfdw.enable_ddl_propagation' AND vartype = 'bool' ORDER BY 1");
my @core_switches = map { "enable_$_" } qw(hashjoin mergejoin nestloop hashagg sort material memoize async_append partitionwise_join);

my $modes = $ENV{DML_MODES} ? PlannerModes->new($c->coordinator) : undef;

my %client;

sub client
{
	my ($schema) = @_;
	return $client{$schema} //= WireClient->new($c->coordinator, 'postgres',
		options => "-c search_path=$schema,public -c statement_timeout=30s -c client_min_messages=error");
}

sub run
{
	my ($schema, $sql, @data) = @_;
	my $result = eval { client($schema)->query($sql, @data) };

	return $result if $result;
	my $message = $@;
	delete $client{$schema};
	$c->coordinator->poll_query_until('postgres', 'SELECT true');
	return { error => { C => 'connection', M => $message } };
}

sub must
{
	my ($schema, $sql) = @_;
	my $result = run($schema, $sql);
	die "$result->{error}{C} $result->{error}{M}: " . substr($sql, 0, 2000) if $result->{error};
	return $result;
}

# New sessions and tables for a script.
sub begin_script
{
	my ($script, $settings) = @_;

	(delete $client{$_})->close for grep { $client{$_} } qw(p s);
	$c->safe_psql("DROP SCHEMA IF EXISTS $_ CASCADE") for qw(p s);
	for my $node ($c->nodes)
	{
		$node->safe_psql('postgres', 'DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO dml_user');
	}
	for my $schema (qw(p s))
	{
		$c->safe_psql("CREATE SCHEMA $schema; GRANT USAGE ON SCHEMA $schema TO dml_user");
		must($schema, $script->setup($schema eq 's'));
		must($schema, join ';', map { "SET $_" } @{ $settings->{common} }, $schema eq 's' ? @{ $settings->{sharded} } : ());
	}
	return;
}

sub random_settings
{
	my %on;
	return { common => [], sharded => [ split /; */, $ENV{DML_SWITCHES} ] } if defined $ENV{DML_SWITCHES};
	return { common => [], sharded => [ $modes->settings($modes->choose) ] } if $modes;
	if (rand() < 0.6)
	{
		$on{ $core_switches[ rand @core_switches ] } = 'off' for 1 .. int rand 3;
		$on{ $switches[ rand @switches ] } = 'off' for 1 .. int rand 3;
		$on{'shardfdw.max_connections_per_node'} = 1 if rand() < 0.15;
	}
	return {
		common  => [ 'plan_cache_mode = ' . (qw(auto auto force_generic_plan force_custom_plan))[ rand 4 ] ],
		sharded => [ map { "$_ = $on{$_}" } sort keys %on ] };
}

# ---- one statement -------------------------------------------------------------------------------

sub row_text { return join "\x1f", map { $_ // "\x00" } @{ $_[0] }; }

sub outcome
{
	my ($result) = @_;
	return "error $result->{error}{C}" if $result->{error};
	return join "\n", join(',', @{ $result->{tags} }), sort map { row_text($_) } @{ $result->{rows} };
}

sub contents
{
	my ($script, $schema, $sql) = @_;
	my $result = run($schema, $sql // $script->contents);
	return "contents: error $result->{error}{C} $result->{error}{M}" if $result->{error};
	return join "\n", sort map { "$_->[0] $_->[1]" } @{ $result->{rows} };
}

# What an error says, or undef.
sub said
{
	my ($result) = @_;
	return $result->{error} ? join ' - ', grep { defined } @{ $result->{error} }{qw(M D)} : undef;
}

my (%refusals, %errors, %tags, $norder, $ndefinitions);

# Runs one statement on both; returns nothing, or what differs: { kind, plain, sharded, message }.
sub compare
{
	my ($script, $statement) = @_;
	my $sharded = run('s', $statement->{sql}, @{ $statement->{data} // [] });
	my $code = $sharded->{error} ? $sharded->{error}{C} : '';

	if ($code)
	{
		for my $refused (@refused)
		{
			next unless $statement->{sql} =~ $refused->[0];
			my $table = $1;
			my $if = $refused->[3] // '';
			next unless $code =~ $refused->[1];
			next if $if eq 'role' && !$script->role || $if eq 'repeatable' && !$script->repeatable || $if eq 'levels' && !$script->levels || $if eq 'triggers' && !$script->triggered($table) || $if eq 'any triggers' && !%{ $script->{triggers} };
			run('p', 'SELECT 1 / 0') if $script->state ne 'none';
			$refusals{ $refused->[2] }++;
			return { ok => 0 };
		}
	}
	my $plain = run('p', $statement->{sql}, @{ $statement->{data} // [] });
	my $plain_code = $plain->{error} ? $plain->{error}{C} : '';
	my $keys = $script->levels ? 'k|i|z' : 'k';
	my %end = (ok => !$plain->{error}, plain_error => $plain->{error}, tag => $plain->{tags}[-1]);

	return { %end, kind => "sharded: $code", message => said($sharded), plain => outcome($plain), sharded => outcome($sharded) }
	  if $code =~ /^(XX|conn)/ && $plain_code !~ /^XX/;
	return { %end, timeout => 1 } if grep { $_ eq '57014' } $code, $plain_code;
	return { %end, order => 1 } if $code ne $plain_code && $code =~ $row_errors && $plain_code =~ $row_errors;
	# a key that is only taken while rows of a plain table change one after the other (docs/limits.md)
	return { %end, order => 1, ends_script => 1 } if $plain_code eq '23505' && !$code && $statement->{sql} =~ /\bUPDATE \w+ (?:AS q )?SET (?:(?! WHERE | FROM ).)*\b(?:$keys) = (?:(?! WHERE | FROM |, \w+ = ).)*\b(?:$keys)\b/;
	my ($one, $two) = (outcome($plain), outcome($sharded));
	return \%end if $one eq $two;
	my $kind = $code || $plain_code ? "plain: " . ($plain_code || 'succeeds') . ", sharded: " . ($code || 'succeeds') : 'rows or tag';
	return { %end, kind => $kind, plain => $one, sharded => $two, message => said($sharded) // said($plain) };
}

# ---- one script ----------------------------------------------------------------------------------

sub compare_contents
{
	my ($script, $end, $sql) = @_;
	my ($one, $two) = map { contents($script, $_, $sql) } qw(p s);
	return $end if $one eq $two;
	my %plain   = map { $_ => 1 } split /\n/, $one;
	my %sharded = map { $_ => 1 } split /\n/, $two;
	return { %$end, kind => $two =~ /^contents: (error \w+)/ ? "contents of the sharded tables: $1" : 'contents', plain => join("\n", grep { !$sharded{$_} } sort keys %plain), sharded => join("\n", grep { !$plain{$_} } sort keys %sharded) };
}

# After DDL, and where a transaction with DDL ends, both sides have the same definitions.
sub compare_definitions
{
	my ($end) = @_;
	my $result = run('s', q{SELECT node, "check", detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND "check" ~ '^(shard|reference)'});
	my $found = $result->{error} ? "error $result->{error}{C} $result->{error}{M}" : join "\n", map { row_text($_) } @{ $result->{rows} };
	$ndefinitions++;
	return $found eq '' ? $end : { %$end, kind => 'definitions', plain => '', sharded => $found };
}

# Runs a list of statements again; returns what differs at the last of them, or undef.
sub replay
{
	my ($case, @statements) = @_;
	my $script = DmlRandom->new(%{ $case->{options} });
	begin_script($script, $case->{settings});
	for my $i (0 .. $#statements)
	{
		my $end = compare($script, $statements[$i]);
		$end = compare_contents($script, $end, $statements[$i]{contents}) if !$end->{kind} && $statements[$i]{contents} && $i == $#statements;
		$end = compare_definitions($end) if !$end->{kind} && $statements[$i]{definitions} && $i == $#statements;
		if ($end->{kind}) { return $i == $#statements ? $end : undef; }
		$script->{last} = { sql => $statements[$i]{sql} };
		$script->done($end->{ok});
	}
	return undef;
}

# Leaves out statements, and settings, as long as the last statement goes on to differ in the same way.
sub minimise
{
	my ($case, $kind, @statements) = @_;
	my $last  = pop @statements;
	my $left  = $tries;
	my $chunk = int((@statements + 1) / 2) || 1;

	while ($left > 0)
	{
		my $gone = 0;
		for (my $i = @statements - $chunk; $i > -$chunk && $left > 0; $i -= $chunk)
		{
			my $from = $i < 0 ? 0 : $i;
			my @try = @statements;
			splice @try, $from, $i < 0 ? $chunk + $i : $chunk;
			next if @try == @statements;
			$left--;
			my $end = replay($case, @try, $last);
			next unless $end && $end->{kind} eq $kind;
			@statements = @try;
			$gone = 1;
		}
		last if $chunk == 1 && !$gone;
		$chunk = int($chunk / 2) || 1 unless $gone && $chunk == 1;
	}
	if ($left > 0 && @{ $case->{settings}{sharded} })
	{
		my $without = { %$case, settings => { %{ $case->{settings} }, sharded => [] } };
		my $end = replay($without, @statements, $last);
		$case->{settings} = $without->{settings} if $end && $end->{kind} eq $kind;
	}
	return (@statements, $last);
}

sub shown
{
	my ($text) = @_;
	my @lines = split /\n/, $text // '';
	my $n = @lines;
	@lines = (@lines[ 0 .. 9 ], "... $n lines") if @lines > 12;
	return join "\n             ", map { s/\x1f/ | /gr =~ s/\x00/NULL/gr } @lines;
}

my ($ncompared, $ndiffer, $ntimeouts, $nsucceed) = (0, 0, 0, 0);

sub run_script
{
	my ($n) = @_;
	my %options = (seed => $n, major => $major, features => \@features, levels => $levels && $n % $levels == 0);
	my $script = DmlRandom->new(%options);
	my $case = { options => \%options };
	my @done;
	my $ddl = 0;

	$case->{settings} = random_settings();
	begin_script($script, $case->{settings});
	srand $n;
	for (1 .. $length)
	{
		my $statement = $script->next;
		note "$n: $statement->{sql}" if $ENV{DML_SHOW};
		push @done, $statement;
		my $end = compare($script, $statement);
		$ncompared++;
		if ($end->{ends_script})
		{
			$norder++;
			return 1;
		}
		$script->done($end->{ok});
		$statement->{contents} = $script->contents if $script->state ne 'aborted' && !$script->role;
		$end = compare_contents($script, $end) if !$end->{kind} && $statement->{contents};
		$ddl = 1 if $statement->{sql} =~ /^(?:ALTER|CREATE|DROP|COMMENT|GRANT|REVOKE|TRUNCATE|VACUUM|REINDEX)/;
		if ($ddl && !$end->{kind} && $script->state ne 'aborted' && !$script->role && ($_ == $length || $statement->{sql} =~ /^(?:ALTER|CREATE|DROP|COMMIT|ROLLBACK)/))
		{
			$statement->{definitions} = 1;
			$end = compare_definitions($end);
			$ddl = 0 if $script->state eq 'none';
		}
		if ($end->{kind})
		{
			$ndiffer++;
			return report($case, $end, @done) if $max_diags-- > 0;
			diag "seed $n: $end->{kind}: $statement->{sql}";
			return 0;
		}
		$ntimeouts++ if $end->{timeout};
		$norder++ if $end->{order};
		$nsucceed++ if $end->{ok};
		$tags{ ($end->{tag} // '') =~ s/ \d.*//r }++ if $end->{ok};
		$errors{"$end->{plain_error}{C} $end->{plain_error}{M}" =~ s/"[^"]*"/?/gr}++ if $end->{plain_error};
	}
	return 1;
}

sub report
{
	my ($case, $end, @done) = @_;
	my @short = $tries > 0 ? minimise($case, $end->{kind}, @done) : @done;
	my $again = replay($case, @short);

	diag "seed $case->{options}{seed}: $end->{kind}" . ($again ? '' : ' (not found again)');
	diag '  settings:  ' . join '; ', @{ $case->{settings}{common} }, @{ $case->{settings}{sharded} };
	diag '  statement: ' . $_->{sql} . ($_->{data} ? ' <- ' . join '', map { s/\n/\\n/r } @{ $_->{data} } : '') for @short;
	diag '  message:   ' . ($end->{message} // '');
	diag '  plain:     ' . shown(($again // $end)->{plain});
	diag '  sharded:   ' . shown(($again // $end)->{sharded});
	return 0;
}

# ---- all -----------------------------------------------------------------------------------------

my $nscripts = 0;
while ($ncompared < $nstatements)
{
	last if $seconds && time - $started > $seconds;
	ok(run_script($seed + $nscripts), 'script of seed ' . ($seed + $nscripts));
	$nscripts++;
	if ($nscripts % 10 == 0)
	{
		my @left = map { $_->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts') } $c->nodes;
		is("@left", ' ', 'no prepared transaction is left');
	}
}
note sprintf '%d scripts, %d statements, %d differ, %d succeed in both, %d took too long, %d with another error of the same statement, %.1f s', $nscripts, $ncompared, $ndiffer, $nsucceed,
  $ntimeouts, $norder // 0, time - $started;
note sprintf '%d times definitions compared', $ndefinitions // 0;
note "$refusals{$_} times refused: $_" for sort keys %refusals;
note 'commands: ' . join ', ', map { "$_ $tags{$_}" } sort keys %tags;
note "$errors{$_} times in both: $_" for sort { $errors{$b} <=> $errors{$a} } keys %errors;
if ($default)
{
	cmp_ok($ncompared - $ndiffer, '>=', 600, 'at least 600 statements ended the same in both');
	cmp_ok($nsucceed, '>=', 400, 'at least 400 of them without an error');
}
done_testing();
