# Monitoring.pm - the files of contrib/monitoring: reads them, and evaluates conditions of alerts as Prometheus would
#
#   my $m = Monitoring->new('contrib/monitoring');
#   $m->take(sub { my ($sql) = @_; ... return [ { column => value, ... }, ... ] });
#   for my $alert ($m->alerts) { print $_->{labels}{node} for $m->evaluate($alert->{expr}); }
#
# Only the YAML that these files are written in is understood, and of PromQL what the alerts use: numbers, metrics
# without matchers, time(), absent(metric), delta(metric[range]), + - / of values with the same labels, and one comparison
# with a number. Anything else dies.

package Monitoring;

use strict;
use warnings;

use Carp;
use JSON::PP ();
use PostgreSQL::Test::Utils ();
use Time::HiRes qw(time);

sub new
{
	my ($class, $dir) = @_;
	return bless { dir => $dir, history => [] }, $class;
}

sub text { my ($self, $name) = @_; return PostgreSQL::Test::Utils::slurp_file("$self->{dir}/$name"); }

# A list of queries: name, sql, labels (a list), values (the column's usage, GAUGE or COUNTER, and description).
sub queries
{
	my ($self) = @_;
	my @queries;
	my $text = $self->text('postgres_exporter.yaml');

	while ($text =~ /^(\w+):\n  query: \|\n((?:    .*\n)+)(?:  (?:master|cache_seconds): \w+\n)*  metrics:\n((?:    .*\n)+)/mg)
	{
		my ($name, $sql, $metrics) = ($1, $2, $3);
		my $query = { name => $name, sql => $sql =~ s/^    //mgr, labels => [], values => {} };

		while ($metrics =~ /\G    - (\w+):\n        usage: "(\w+)"\n        description: "([^"]+)"\n/gc)
		{
			if ($2 eq 'LABEL') { push @{ $query->{labels} }, $1; }
			else { $query->{values}{$1} = { usage => $2, description => $3 }; }
		}
		croak "$name: not understood from here: " . substr($metrics, pos($metrics) // 0) if (pos($metrics) // 0) < length $metrics;
		push @queries, $query;
	}
	my @names = $text =~ /^(\w+):$/mg;
	croak 'postgres_exporter.yaml: a query is not understood' if @names != @queries;
	return @queries;
}

# Metrics of the collectors of sql_exporter by their names, each with type, help, key_labels, values, query_ref and sql.
sub collected
{
	my ($self) = @_;
	my %metrics;

	for my $file (glob "$self->{dir}/*.collector.yml")
	{
		my ($head, $metrics, $queries) = PostgreSQL::Test::Utils::slurp_file($file) =~ /\A(.*?)^metrics:\n(.*)^queries:\n(.*)\z/ms
		  or croak "$file: not understood";
		my %sql = $queries =~ /^  - query_name: (\w+)\n    query: \|\n((?:      .*\n)+)/mg;
		s/^      //mg for values %sql;
		for my $metric (split /^(?=  - )/m, $metrics)
		{
			my %field = $metric =~ /^  (?:- |  )(\w+): (.*)$/mg;
			$field{$_} =~ s/^[\["]|[\]"]$//g for keys %field;
			$metrics{ $field{metric_name} } = { %field, sql => $sql{ $field{query_ref} } // croak("$file: there is no query $field{query_ref}") };
		}
	}
	return %metrics;
}

# A list of rules: alert, expr, for, severity, summary, description, docs.
sub alerts
{
	my ($self) = @_;
	my @alerts;

	for my $rule (split /^(?=      - alert:)/m, $self->text('alerts.yaml') =~ s/\A.*?^    rules:\n//msr)
	{
		my %field = $rule =~ /^\s+(?:- )?(\w+): (.+)$/mg;
		s/^"(.*)"$/$1/ for values %field;
		push @alerts, \%field;
	}
	return @alerts;
}

# The expressions of the dashboard's panels.
sub panels
{
	my ($self) = @_;
	my $dashboard = JSON::PP::decode_json($self->text('dashboard.json'));
	return map { my $title = $_->{title}; map { [ $title, $_->{expr} ] } @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
}

# Takes a sample of all metrics: calls ask with each query, which returns rows as hashes. A query
# that fails yields no sample, as with exporters.
sub take
{
	my ($self, $ask) = @_;
	my %sample;

	for my $query ($self->queries)
	{
		for my $row (@{ (eval { $ask->($query->{sql}) }) // [] })
		{
			my %labels = map { $_ => $row->{$_} } @{ $query->{labels} };
			push @{ $sample{"$query->{name}_$_"} }, { labels => \%labels, value => $row->{$_} } for keys %{ $query->{values} };
		}
	}
	push @{ $self->{history} }, \%sample;
	return \%sample;
}

sub forget { my ($self) = @_; $self->{history} = []; return; }

# The series for which a condition holds by the last sample: a list of labels and value.
sub evaluate
{
	my ($self, $expr) = @_;
	my ($left, $op, $number) = $expr =~ /^(.*?)\s*(==|<|>)\s*([\d.]+)$/ ? ($1, $2, $3) : ($expr, undef, undef);
	my $vector = $self->_sum(\$left);

	croak "not understood from here: $left" if $left =~ /\S/;
	croak "no series: $expr" unless ref $vector;
	return @$vector unless defined $op;
	return grep { $op eq '==' ? $_->{value} == $number : $op eq '<' ? $_->{value} < $number : $_->{value} > $number } @$vector;
}

sub _sum
{
	my ($self, $text) = @_;
	my $value = $self->_atom($text);
	$value = _combine($1, $value, $self->_atom($text)) while $$text =~ s/^\s*([-+\/])\s*//;
	return $value;
}

# A number, or a list of series.
sub _atom
{
	my ($self, $text) = @_;
	my ($first, $last) = @{ $self->{history} }[ 0, -1 ];

	return $1 if $$text =~ s/^\s*(\d+(?:\.\d+)?)//;
	return time if $$text =~ s/^\s*time\(\)//;
	return $last->{$1} ? [] : [ { labels => {}, value => 1 } ] if $$text =~ s/^\s*absent\((\w+)\)//;
	return _combine('-', $last->{$1} // [], $first->{$1} // []) if $$text =~ s/^\s*delta\((\w+)\[\w+\]\)//;
	return $last->{$1} // [] if $$text =~ s/^\s*([a-z_]+)(?![\w({])//;
	croak "not understood from here: $$text";
}

sub _combine
{
	my ($op, $left, $right) = @_;
	my $apply = sub { my ($l, $r) = @_; return $op eq '+' ? $l + $r : $op eq '-' ? $l - $r : $l / $r; };
	my $key = sub { my ($labels) = @_; return join "\0", map { ($_, $labels->{$_}) } sort keys %$labels; };

	return $apply->($left, $right) unless ref $left || ref $right;
	return [ map { { labels => $_->{labels}, value => $apply->($_->{value}, $right) } } @$left ] unless ref $right;
	return [ map { { labels => $_->{labels}, value => $apply->($left, $_->{value}) } } @$right ] unless ref $left;
	my %right = map { $key->($_->{labels}) => $_->{value} } @$right;
	return [ map { { labels => $_->{labels}, value => $apply->($_->{value}, $right{ $key->($_->{labels}) }) } } grep { exists $right{ $key->($_->{labels}) } } @$left ];
}

1;
