# PairedScript.pm - runs a random script on plain tables and on sharded ones, and compares after each statement
#
#   my $pair = PairedScript->new($cluster, make => sub { DmlRandom->new(@_) }, ...);
#   $pair->run_script(seed => 7, ...)       # true: all statements ended the same; the options are those of make
#   $pair->{count}                          # statements, differ, succeed, timeouts, order, definitions
#   $pair->{refusals}, {errors}, {tags}     # message -> how often
#
# Options of new():
#   make        makes a script of the options of run_script(); DmlRandom.pm describes scripts
#   settings    returns { common => [ 'name = value' ], sharded => [ ... ] } of the next script
#
#   refused     (script, statement, result of the sharded run): the reason why the sharded
#               tables may refuse the statement; undef: they may not
#
#   tolerated   (script, statement, SQLSTATE plain, sharded): true if the two may end
#               differently, which ends the script
#
#   length      statements in one script (90)
#   tries       how often a script that differs is run again to make it smaller (30)
#   max_diags   how many differences are made smaller and printed; others are named (12)
#
#   on_node     SQL to run on each node once it has the schema
#   on_schema   SQL to run in the coordinator's schemas before the script's setup
#   skip        leave out statements that match
#   show        print every statement
#
# Both runs use the same names, in the schemas p and s, and one session for each script. They have to agree in the SQLSTATE, the
# command tag, the rows, and the contents of all tables. An internal error, or a connection that breaks, is a failure
# whatever the other run says.

package PairedScript;

use strict;
use warnings;

use Test::More ();
use WireClient;

# If several rows have errors, the order of writing decides which error comes first. So codes of one
# class count as equal. 55000: INSERT ... ON CONFLICT raises it for a deferrable key when it
# searches the first conflicting row.
my $row_errors = qr/^(?:22|23|21|44|42501|55000)/;

sub new
{
	my ($class, $c, %opt) = @_;
	return bless {
		cluster => $c, client => {}, count => { map { $_ => 0 } qw(statements differ succeed timeouts order definitions) },
		refusals => {}, errors => {}, tags => {}, failures => [],
		length => 90, tries => 30, max_diags => 12, settings => sub { return { common => [], sharded => [] } },
		refused => sub { return undef }, tolerated => sub { return 0 }, %opt }, $class;
}

# ---- sessions ------------------------------------------------------------------------------------

sub client
{
	my ($self, $schema) = @_;
	return $self->{client}{$schema} //= WireClient->new($self->{cluster}->coordinator, 'postgres',
		options => "-c search_path=$schema,public -c statement_timeout=30s -c client_min_messages=error");
}

sub run
{
	my ($self, $schema, $sql, @data) = @_;
	my $result = eval { $self->client($schema)->query($sql, @data) };

	return $result if $result;
	my $message = $@;
	delete $self->{client}{$schema};
	$self->{cluster}->coordinator->poll_query_until('postgres', 'SELECT true');
	return { error => { C => 'connection', M => $message } };
}

sub must
{
	my ($self, $schema, $sql) = @_;
	my $result = $self->run($schema, $sql);
	die "$result->{error}{C} $result->{error}{M}: " . substr($sql, 0, 2000) if $result->{error};
	return $result;
}

sub end_sessions
{
	my ($self) = @_;
	eval { $_->close } for values %{ $self->{client} };
	$self->{client} = {};
	return;
}

# New sessions and tables for a script.
sub begin_script
{
	my ($self, $script, $settings) = @_;
	my $c = $self->{cluster};

	$self->end_sessions;
	$c->safe_psql("DROP SCHEMA IF EXISTS $_ CASCADE") for qw(p s);
	$_->safe_psql('postgres', "DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s; " . ($self->{on_node} // '')) for $c->nodes;
	for my $schema (qw(p s))
	{
		$c->safe_psql("CREATE SCHEMA $schema; SET search_path = $schema; " . ($self->{on_schema} // ''));
		$self->must($schema, $script->setup($schema eq 's'));
		$self->must($schema, join ';', map { "SET $_" } @{ $settings->{common} }, $schema eq 's' ? @{ $settings->{sharded} } : ());
	}
	return;
}

# ---- one statement -------------------------------------------------------------------------------

sub row_text { return join "\x1f", map { $_ // "\x00" } @{ $_[0] }; }

sub outcome
{
	my ($statement, $result) = @_;
	return "error $result->{error}{C}" if $result->{error};
	my @rows = $statement->{no_rows} ? () : map { row_text($_) } @{ $result->{rows} };
	return join "\n", join(',', @{ $result->{tags} }), $statement->{ordered} ? @rows : sort @rows;
}

sub contents
{
	my ($self, $script, $schema, $sql) = @_;
	my $result = $self->run($schema, $sql // $script->contents);
	return "contents: error $result->{error}{C} $result->{error}{M}" if $result->{error};
	return join "\n", sort map { "$_->[0] $_->[1]" } @{ $result->{rows} };
}

# The text of an error, or undef.
sub said
{
	my ($result) = @_;
	return $result->{error} ? join ' - ', grep { defined } @{ $result->{error} }{qw(M D)} : undef;
}

# Runs one statement on both sides. Returns how it ended: { ok, tag, plain_error }, and the
# difference: { kind, plain, sharded, message }.
sub compare
{
	my ($self, $script, $statement) = @_;
	my $sharded = $self->run('s', $statement->{sql}, @{ $statement->{data} // [] });
	my $code = $sharded->{error} ? $sharded->{error}{C} : '';
	my $why = $code ? $self->{refused}->($script, $statement, $sharded) : undef;

	if (defined $why)
	{
		# The plain run then gets an error in the place of the statement.
		$self->run('p', 'SELECT 1 / 0') if $script->state ne 'none';
		# A COMMIT that is refused ends the transaction.
		$self->run('p', 'ROLLBACK') if $statement->{sql} =~ /^COMMIT/;
		$self->{refusals}{$why}++;
		return { ok => 0 };
	}
	my $plain = $self->run('p', $statement->{sql}, @{ $statement->{data} // [] });
	my $plain_code = $plain->{error} ? $plain->{error}{C} : '';
	my %end = (ok => !$plain->{error}, plain_error => $plain->{error}, tag => $plain->{tags}[-1]);

	return { %end, kind => "sharded: $code", message => said($sharded), plain => outcome($statement, $plain), sharded => outcome($statement, $sharded) }
	  if $code =~ /^(XX|conn)/ && $plain_code !~ /^XX/;
	return { %end, timeout => 1 } if grep { $_ eq '57014' } $code, $plain_code;
	return { %end, order => 1 } if $code ne $plain_code && $code =~ $row_errors && $plain_code =~ $row_errors;
	return { %end, order => 1, ends_script => 1 } if $self->{tolerated}->($script, $statement, $plain_code, $code);
	my ($one, $two) = (outcome($statement, $plain), outcome($statement, $sharded));
	return \%end if $one eq $two;
	my $kind = $code || $plain_code ? "plain: " . ($plain_code || 'succeeds') . ", sharded: " . ($code || 'succeeds') : 'rows or tag';
	return { %end, kind => $kind, plain => $one, sharded => $two, message => said($sharded) // said($plain) };
}

sub compare_contents
{
	my ($self, $script, $end, $sql) = @_;
	my ($one, $two) = map { $self->contents($script, $_, $sql) } qw(p s);
	return $end if $one eq $two;
	return { %$end, timeout => 1 } if grep { /^contents: error 57014/ } $one, $two;
	my %plain   = map { $_ => 1 } split /\n/, $one;
	my %sharded = map { $_ => 1 } split /\n/, $two;
	return { %$end, kind => $two =~ /^contents: (error \w+)/ ? "contents of the sharded tables: $1" : 'contents', plain => join("\n", grep { !$sharded{$_} } sort keys %plain), sharded => join("\n", grep { !$plain{$_} } sort keys %sharded) };
}

# After DDL, and at the end of a transaction with DDL, both sides must have the same definitions.
sub compare_definitions
{
	my ($self, $end) = @_;
	my $result = $self->run('s', q{SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND check_name ~ '^(shard|reference)'});
	my $found = $result->{error} ? "error $result->{error}{C} $result->{error}{M}" : join "\n", map { row_text($_) } @{ $result->{rows} };
	$self->{count}{definitions}++;
	return $found eq '' ? $end : { %$end, kind => 'definitions', plain => '', sharded => $found };
}

# ---- a script that differs is made smaller -------------------------------------------------------

# Runs a list of statements again. Returns the difference at the last one, or undef.
sub replay
{
	my ($self, $case, @statements) = @_;
	my $script = $self->{make}->(%{ $case->{options} });
	$self->begin_script($script, $case->{settings});
	for my $i (0 .. $#statements)
	{
		my $end = $self->compare($script, $statements[$i]);
		$end = $self->compare_contents($script, $end, $statements[$i]{contents}) if !$end->{kind} && $statements[$i]{contents} && $i == $#statements;
		$end = $self->compare_definitions($end) if !$end->{kind} && $statements[$i]{definitions} && $i == $#statements;
		if ($end->{kind}) { return $i == $#statements ? $end : undef; }
		$script->{last} = { sql => $statements[$i]{sql} };
		$script->done($end->{ok});
	}
	return undef;
}

# Leaves out parts of a list, larger ones first, as long as still(list) is true.
sub shrink
{
	my ($left, $still, @items) = @_;
	my $chunk = int((@items + 1) / 2) || 1;

	while ($$left > 0)
	{
		my $gone = 0;
		for (my $i = @items - $chunk; $i > -$chunk && $$left > 0; $i -= $chunk)
		{
			my $from = $i < 0 ? 0 : $i;
			my @try = @items;
			splice @try, $from, $i < 0 ? $chunk + $i : $chunk;
			next if @try == @items;
			$$left--;
			next unless $still->(@try);
			@items = @try;
			$gone = 1;
		}
		last if $chunk == 1 && !$gone;
		$chunk = int($chunk / 2) || 1 unless $gone && $chunk == 1;
	}
	return @items;
}

# Splits a statement into parts. Text in parentheses or quotes is one part.
my $quoted = qr/'(?:[^']|'')*'|"(?:[^"]|"")*"/;
my $nested;
$nested = qr/\((?:[^()'"]|$quoted|(??{ $nested }))*\)/;

sub parts_of
{
	my ($sql) = @_;
	my @parts;
	push @parts, $1 while $sql =~ /\G(\s*(?:$quoted|\$(\w*)\$.*?\$\2\$|$nested|\w+|[^\w\s'"()\$]+|.))/gs;
	return @parts;
}

# Leaves out statements, settings, and parts of statements, while the last statement has the same
# difference.
sub minimise
{
	my ($self, $case, $kind, @statements) = @_;
	my $last = pop @statements;
	my $left = $self->{tries};
	my $still = sub { my $end = eval { $self->replay($case, @_) }; return $end && $end->{kind} eq $kind; };

	@statements = shrink(\$left, sub { $still->(@_, $last) }, @statements);
	for my $list (qw(sharded common))
	{
		next if $left-- <= 0 || !@{ $case->{settings}{$list} };
		my @all = @{ $case->{settings}{$list} };
		$case->{settings}{$list} = [];
		next if $still->(@statements, $last);
		$case->{settings}{$list} = \@all;
	}
	$left = $self->{tries};
	@statements = (@statements, $last);
	for my $i (reverse 0 .. $#statements)
	{
		my $with = sub { return map { $_ == $i ? { %{ $statements[$i] }, sql => $_[0] } : $statements[$_] } 0 .. $#statements; };
		# without its order the result differs each time
		next if $statements[$i]{sql} =~ /ORDER BY/ && ($statements[$i]{ordered} || $statements[$i]{sql} =~ /^DECLARE/);
		my @parts = shrink(\$left, sub { $still->($with->(join '', @_)) }, parts_of($statements[$i]{sql}));
		$statements[$i] = { %{ $statements[$i] }, sql => join '', @parts };
		for my $inner (grep { $parts[$_] =~ /^\s*\(.*\)$/s } 0 .. $#parts)
		{
			my ($open, $inside) = $parts[$inner] =~ /^(\s*\()(.*)\)$/s;
			my $whole = sub { return join '', @parts[ 0 .. $inner - 1 ], $open, @_, ')', @parts[ $inner + 1 .. $#parts ] };
			my @kept = shrink(\$left, sub { $still->($with->($whole->(@_))) }, parts_of($inside));
			$parts[$inner] = join '', $open, @kept, ')';
			$statements[$i] = { %{ $statements[$i] }, sql => join '', @parts };
		}
	}
	return @statements;
}

sub shown
{
	my ($text) = @_;
	my @lines = split /\n/, $text // '';
	my $n = @lines;
	@lines = (@lines[ 0 .. 9 ], "... $n lines") if @lines > 12;
	return join "\n             ", map { s/\x1f/ | /gr =~ s/\x00/NULL/gr } @lines;
}

sub report
{
	my ($self, $case, $end, @done) = @_;
	my @short = $self->{tries} > 0 ? $self->minimise($case, $end->{kind}, @done) : @done;
	my $again = $self->replay($case, @short);

	Test::More::diag($_) for "seed $case->{options}{seed}: $end->{kind}" . ($again ? '' : ' (not found again)'),
	  $case->{script}->can('described') ? '  tables:    ' . $case->{script}->described : (),
	  '  settings:  ' . join('; ', @{ $case->{settings}{common} }, @{ $case->{settings}{sharded} }),
	  (map { '  statement: ' . $_->{sql} . ($_->{data} ? ' <- ' . join '', map { s/\n/\\n/r } @{ $_->{data} } : '') } @short),
	  '  message:   ' . (($again // $end)->{message} // ''),
	  '  plain:     ' . shown(($again // $end)->{plain}),
	  '  sharded:   ' . shown(($again // $end)->{sharded});
	return 0;
}

# ---- one script ----------------------------------------------------------------------------------

sub run_script
{
	my ($self, %options) = @_;
	my $script = $self->{make}->(%options);
	my $case = { options => \%options, script => $script };
	my $count = $self->{count};
	my @done;
	my $ddl = 0;

	$case->{settings} = $self->{settings}->();
	$self->begin_script($script, $case->{settings});
	srand $options{seed};
	for (1 .. $self->{length})
	{
		my $statement = $script->next;
		$statement = $script->next while $self->{skip} && $statement->{sql} =~ $self->{skip};
		Test::More::note("$options{seed}: $statement->{sql}") if $self->{show};
		push @done, $statement;
		my $end = $self->compare($script, $statement);
		$count->{statements}++;
		# One side has not run the statement, so nothing after it can be compared.
		if ($end->{ends_script} || $end->{timeout})
		{
			$count->{ $end->{timeout} ? 'timeouts' : 'order' }++;
			return 1;
		}
		$script->done($end->{ok});
		$statement->{contents} = $script->contents if $script->state ne 'aborted' && !$script->role;
		$end = $self->compare_contents($script, $end) if !$end->{kind} && $statement->{contents};
		if ($end->{timeout})
		{
			$count->{timeouts}++;
			return 1;
		}
		$ddl = 1 if $statement->{sql} =~ /^(?:ALTER|CREATE|DROP|COMMENT|GRANT|REVOKE|TRUNCATE|VACUUM|REINDEX)/;
		if ($ddl && !$end->{kind} && $script->state ne 'aborted' && !$script->role && ($_ == $self->{length} || $statement->{sql} =~ /^(?:ALTER|CREATE|DROP|COMMIT|ROLLBACK)/))
		{
			$statement->{definitions} = 1;
			$end = $self->compare_definitions($end);
			$ddl = 0 if $script->state eq 'none';
		}
		if ($end->{kind})
		{
			$count->{differ}++;
			return $self->report($case, $end, @done) if $self->{max_diags}-- > 0;
			Test::More::diag("seed $options{seed}: $end->{kind}: $statement->{sql}");
			return 0;
		}
		$count->{order}++ if $end->{order};
		$count->{succeed}++ if $end->{ok};
		$self->{tags}{ ($end->{tag} // '') =~ s/ \d.*//r }++ if $end->{ok};
		$self->{errors}{"$end->{plain_error}{C} $end->{plain_error}{M}" =~ s/"[^"]*"/?/gr}++ if $end->{plain_error};
	}
	return 1;
}

1;
