# PairedRun.pm - runs a random query on plain tables and on sharded ones, and compares the answers
#
#   my $pair = PairedRun->new($cluster);
#   $pair->make_tables;                     # those of SqlRandom.pm; make_tables(1): with those of large joins
#   $pair->make_levels;                     # ditto (make_levels(1)): a third time, as in LevelTables.pm
#
#   $pair->agree($case, \my %why)          # true: the same rows, or the same SQLSTATE
#   $pair->report($case, \%why, $explain)  # makes the case smaller, and prints it
#
# A case is one of SqlRandom.pm. The tables have the same names in the schemas p and s of the cluster's coordinator; a case that has
# {levels} reads those of schema t instead of s. An internal error, or a connection that breaks, is a difference whatever the other
# run says.
#
# Of a case that has {cursor} the sharded run fetches that many rows at a time; what has {executions} it prepares
# and executes as often.

package PairedRun;

use strict;
use warnings;

use LevelTables;
use SqlRandom;
use Test::More ();
use WireClient;

# new(cluster, statement_timeout)
sub new
{
	my ($class, $c, $timeout) = @_;
	return bless { cluster => $c, timeout => $timeout // '20s', client => {} }, $class;
}

# Another collation than C, as far as this PostgreSQL has one, is public.other; returns how it was made.
sub make_tables
{
	my ($self, $more) = @_;
	my $c = $self->{cluster};
	my ($collation) = grep { ($c->psql("CREATE COLLATION public.other ($_)"))[0] == 0 }
	  ("provider = icu, locale = 'de'", "locale = 'en_US.utf8'", "locale = 'C.utf8'", "locale = 'POSIX'");

	$_->safe_psql('postgres', "CREATE COLLATION public.other ($collation)") for $c->nodes;
	$self->fill_schema($_, $more) for qw(p s);
	return $collation;
}

sub make_levels { my ($self, $more) = @_; return $self->fill_schema('t', $more); }

sub fill_schema
{
	my ($self, $schema, $more) = @_;
	my $c = $self->{cluster};
	my $sharded = $schema ne 'p';
	my %sharding = (
		a => "SELECT shardfdw.shard_table('a', 'k', shards => 5)",
		b => "SELECT shardfdw.shard_table('b', 'k', colocate_with => 'a')",
		e => "SELECT shardfdw.shard_table('e', 'i', shards => 3)",
		x => "SELECT shardfdw.shard_table('x', 't', shards => 4)",
		o => "SELECT shardfdw.shard_table('o', 'k', shards => 1)",
		m => "SELECT shardfdw.shard_table('m', 'k', shards => 16)",
		r => "SELECT shardfdw.create_reference_table('r')");
	my $sql = "SET search_path = $schema, public;\n";

	$_->safe_psql('postgres', "CREATE SCHEMA $schema") for $c->coordinator, $sharded ? $c->nodes : ();
	for (random_tables(1), $more ? grep { $_->[0] !~ /^h/ } more_tables(1) : ())
	{
		my ($name, $columns, $rows) = @$_;
		if ($sharded && $name eq 'g')
		{
			$c->node_safe_psql(1, "CREATE TABLE $schema.g ($columns); INSERT INTO $schema.g VALUES $rows");
			$sql .= "CREATE FOREIGN TABLE g ($columns) SERVER node1;\n";
			next;
		}
		my $levels = $schema eq 't' && upper_key($name);
		$sql .= "CREATE TABLE $name ($columns)" . ($levels ? partition_by($name) . ';' . partitions($name, 1) : ";\n") . "INSERT INTO $name VALUES $rows;\n";
		$sql .= "CREATE INDEX ON $name (k);\n" if $name =~ /[abrm]/;
		$sql .= "$sharding{$name};\n" if $sharded && !$levels && $sharding{$name};
		$sql .= "ANALYZE $name;\n" if $name =~ /[aelm]/;
	}
	for (grep { $more && $_->[0] eq 'h' } more_tables(1))
	{
		$sql .= "CREATE TABLE h ($_->[1]) PARTITION BY RANGE (id);\nCREATE TABLE h1 PARTITION OF h FOR VALUES FROM (MINVALUE) TO (20);\n" .
		  "CREATE TABLE h2 PARTITION OF h FOR VALUES FROM (20) TO (MAXVALUE) PARTITION BY HASH (k);\n";
		for my $i (0 .. 2)
		{
			my $bounds = "FOR VALUES WITH (MODULUS 3, REMAINDER $i)";
			$sql .= $sharded ? "SELECT shardfdw.create_shard('h2', 'h2_$i', '$bounds', 'node' || 1 + $i % 2);\n" : "CREATE TABLE h2_$i PARTITION OF h2 $bounds;\n";
		}
		$sql .= "INSERT INTO h VALUES $_->[2];\n";
	}
	$sql .= "CREATE VIEW v AS SELECT a.k, b.n, b.d, a.t FROM a JOIN b ON a.k = b.k AND a.i = b.i;\n";
	$c->safe_psql($sql);
	return;
}

sub client
{
	my ($self, $schema) = @_;
	return $self->{client}{$schema} //= WireClient->new($self->{cluster}->coordinator, 'postgres',
		options => "-c search_path=$schema,public -c statement_timeout=$self->{timeout} -c client_min_messages=error");
}

# Failures in every case: internal errors, and lost connections to the client or to a node.
sub is_failure { return $_[0] =~ /^(?:XX|conn|08|57P)/; }

# Runs statements in one session; the result of the last one, or the first error.
sub run_all
{
	my ($self, $schema, @statements) = @_;
	my $result;
	for my $sql (@statements)
	{
		$result = eval { $self->client($schema)->query($sql) };
		if (!$result)
		{
			my $message = $@;
			$self->{client} = {};
			$self->{cluster}->coordinator->poll_query_until('postgres', 'SELECT true');
			return { error => { C => 'connection', M => $message } };
		}
		return $result if $result->{error};
	}
	return $result;
}

# The results of a query's executions.
sub executions
{
	my ($self, $case, $schema) = @_;
	my $sql = text_of($case);

	if ($case->{cursor} && $schema ne 'p' && !$case->{params})
	{
		my @rows;
		my $last = time + ($self->{timeout} =~ s/s$//r);
		my $result = $self->run_all($schema, "DECLARE part CURSOR FOR $sql");
		return $result if $result->{error};
		do
		{
			$result = $self->run_all($schema, "FETCH $case->{cursor} FROM part");
			return $result if $result->{error};
			# the statement's time-out limits each part, but not all parts together
			return { error => { C => '57014', M => 'too many parts' } } if time > $last;
			push @rows, @{ $result->{rows} };
		} while (@{ $result->{rows} } == $case->{cursor});
		return { rows => \@rows };
	}
	return $self->run_all($schema, $sql) unless $case->{params} || $case->{executions};

	my $types = join ', ', @{ $case->{params} // [] };
	my $prepared = $self->run_all($schema, 'PREPARE q ' . ($types ? "($types) " : '') . "AS $sql");
	return $prepared if $prepared->{error};
	my @results;
	for my $values ($case->{params} ? @{ $case->{values} } : ([]))
	{
		for (1 .. ($schema ne 'p' ? $case->{executions} // 1 : 1))
		{
			my $result = $self->run_all($schema, 'EXECUTE q' . (@$values ? ' (' . join(', ', @$values) . ')' : ''));
			return (@results, $result) if $result->{error};
			# a result that differs from the previous one is added
			push @results, $result if $_ == 1 || answer($case, $result) ne answer($case, $results[-1]);
		}
	}
	return @results;
}

sub row_text { return join "\x1f", map { $_ // "\x00" } @{ $_[0] }; }

sub answer
{
	my ($case, $result) = @_;
	my @rows = map { row_text($_) } @{ $result->{rows} };
	return join "\n", 'rows', $case->{ordered} ? @rows : sort @rows;
}

# Runs a case in one schema. Returns a text, and a hash with details.
sub outcome
{
	my ($self, $case, $schema) = @_;
	my @settings = (@{ $case->{common} }, $schema ne 'p' ? @{ $case->{settings} } : ());
	my $in_transaction = $case->{in_transaction} || $case->{cursor};
	my @texts;
	my $about = {};

	if (@settings)
	{
		my $set = $self->run_all($schema, join ';', map { "SET $_" } @settings);
		die "@settings: $set->{error}{M}" if $set->{error};
	}
	$self->run_all($schema, 'BEGIN') if $in_transaction;
	for my $result ($self->executions($case, $schema))
	{
		if ($result->{error})
		{
			$about->{error} = $result->{error};
			push @texts, "error $result->{error}{C}";
			last;
		}
		$about->{nrows} += @{ $result->{rows} };
		push @texts, answer($case, $result);
	}
	# if the client needs long to read a result, a time-out may end even these
	my @end = (($in_transaction ? 'ROLLBACK' : ()), ($case->{params} || $case->{executions} ? 'DEALLOCATE ALL' : ()), (@settings ? 'RESET ALL' : ()));
	for my $sql (@end)
	{
		$self->run_all($schema, $sql) if $self->run_all($schema, $sql)->{error};
	}
	return (join("\n--\n", @texts), $about);
}

sub major
{
	my ($self) = @_;
	return $self->{major} //= int($self->{cluster}->safe_psql('SHOW server_version_num') / 10000);
}

sub sharded_schema { my ($case) = @_; return $case->{levels} ? 't' : 's'; }

# True when both runs agree; fills $why otherwise.
sub agree
{
	my ($self, $case, $why) = @_;
	my ($plain, $about_plain)     = $self->outcome($case, 'p');
	my ($sharded, $about_sharded) = $self->outcome($case, sharded_schema($case));
	my $code = $about_sharded->{error} ? $about_sharded->{error}{C} : '';

	@$why{qw(plain sharded about_plain about_sharded)} = ($plain, $sharded, $about_plain, $about_sharded);
	$why->{kind} = kind_of($why);
	# a statement that core itself cannot run cannot be compared
	return 1 if $about_plain->{error} && $about_plain->{error}{C} =~ /^(XX|conn)/;
	return 1 if $about_plain->{error} && $about_plain->{error}{M} =~ /^FULL JOIN is only supported/ && !is_failure($code);
	# core before 18 treats columns that a join has equal as equal in all grouping sets, too, and
	# merges rows that are sorted by the other one
	return 1 if $about_sharded->{error} && $about_sharded->{error}{M} =~ /^mergejoin input data is out of order/ && text_of($case) =~ /\b(?:CUBE|ROLLUP|GROUPING SETS)\b/ && $self->major < 18;
	return 0 if is_failure($code);
	# core computes min() and max() with an index and the query's WITH TIES, and so returns several
	# rows
	return 1 if text_of($case) =~ /\b(min|max)\(.*WITH TIES/s && grep { $_ && $_->{C} eq '21000' } map { $_->{error} } $about_plain, $about_sharded;
	# core before 18 treats a column that a condition makes constant as constant in all grouping
	# sets, too, and does not sort by it
	return 1 if text_of($case) =~ / = .*\b(?:CUBE|ROLLUP|GROUPING SETS)\b.*ORDER BY/s && join("\n", sort split /\n/, $plain) eq join("\n", sort split /\n/, $sharded);
	# core finds that collations are in conflict when values are compared, which a plan without rows never does
	return 1 if $about_plain->{error} && $about_plain->{error}{C} eq '42P22';
	return 1 if grep { $_ && $_->{C} eq '57014' } map { $_->{error} } $about_plain, $about_sharded;
	return $plain eq $sharded;
}

# Makes a different case smaller, while the difference stays the same: rows, or the same error.
sub minimise
{
	my ($self, $case, $kind) = @_;
	my $budget = 600;
	my $still = sub { my %why; return !$self->agree($case, \%why) && $why{kind} eq $kind; };

	for my $pass (1 .. 3)
	{
		my $progress = 0;
		for my $cut (reverse cuts_of($case))
		{
			next if $cut->[2] || $budget-- <= 0;
			my $before = text_of($case);
			$cut->[2] = 1;
			next if text_of($case) eq $before;
			if ($still->()) { $progress = 1; }
			else { $cut->[2] = 0; }
		}
		for my $list (qw(settings common))
		{
			for my $i (reverse 0 .. $#{ $case->{$list} })
			{
				my ($gone) = splice @{ $case->{$list} }, $i, 1;
				splice @{ $case->{$list} }, $i, 0, $gone unless $still->();
			}
		}
		for my $way (grep { $case->{$_} } qw(cursor executions in_transaction))
		{
			my $value = delete $case->{$way};
			$case->{$way} = $value unless $still->();
		}
		last unless $progress;
	}
	return;
}

# The kind of a difference.
sub kind_of
{
	my ($why) = @_;
	my ($plain, $sharded) = map { $_ && $_->{error} ? "$_->{error}{C} " . ($_->{error}{M} // '') =~ s/\d+|"[^"]*"/?/gr : 'rows' } @$why{qw(about_plain about_sharded)};
	return "$plain / $sharded";
}

sub shown
{
	my ($text) = @_;
	my @lines = split /\n/, $text;
	my $n = @lines;
	@lines = (@lines[ 0 .. 11 ], "... $n lines") if @lines > 14;
	return join "\n           ", map { s/\x1f/ | /gr =~ s/\x00/NULL/gr } @lines;
}

sub report
{
	my ($self, $case, $why, $explain) = @_;
	my $kind = $why->{kind};

	$self->minimise($case, $kind);
	$self->agree($case, $why);
	my $error = $why->{about_sharded}{error} // $why->{about_plain}{error};
	my @lines = ("seed $case->{seed}: $kind" . ($error ? "\n  message: $error->{M}" : ''));
	push @lines, '  settings: ' . join '; ', @{ $case->{common} }, @{ $case->{settings} }, $case->{in_transaction} ? 'BEGIN' : (),
	  map { $case->{$_} ? "$_ $case->{$_}" : () } qw(cursor executions levels);
	push @lines, '  query:   ' . text_of($case);
	push @lines, '  params:  ' . join ', ', @{ $case->{params} }, map { '(' . join(', ', @$_) . ')' } @{ $case->{values} } if $case->{params};
	push @lines, "  plain:   " . shown($why->{plain});
	push @lines, "  sharded: " . shown($why->{sharded});
	if ($explain && !$case->{params})
	{
		my $schema = sharded_schema($case);
		$self->run_all($schema, join ';', map { "SET $_" } @{ $case->{common} }, @{ $case->{settings} }, 'a.b = 1');
		my $plan = $self->run_all($schema, 'EXPLAIN (VERBOSE, COSTS OFF) ' . text_of($case));
		push @lines, '  plan:    ' . join "\n           ", map { $_->[0] } @{ $plan->{rows} };
		$self->run_all($schema, 'RESET ALL');
	}
	Test::More::diag($_) for @lines;
	return;
}

1;
