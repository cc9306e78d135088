# Compares what users see with docs/reference.md: functions with their arguments and results, views
# with their columns. Settings are there or in docs/developer_options.md. Everything public must be documented, and
# everything documented must exist. Each object must have a comment.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 0);
my $reference = joined(slurp_file('docs/reference.md'));

# A page with each paragraph and each item of a list on a separate line.
sub joined
{
	my ($page) = @_;
	my ($out, $code) = ('', 0);

	for my $line (split /\n/, $page)
	{
		my $begins = $code || $line =~ /^(?: *```|- |\d+\. |[#|<]|$)/ || $out =~ /(?:^|\n)(?:#[^\n]*|\|[^\n]*|)$/;
		$code = !$code if $line =~ /^ *```/;
		$out .= $begins ? "\n$line" : ' ' . $line =~ s/^ +//r;
	}
	return "$out\n";
}

# Arguments as the catalog writes them, made as short as a document has them.
sub short
{
	my ($text) = @_;
	$text =~ s/'::[\w ]+(\[\])?/'/g;
	$text =~ s/NULL::[\w ]+(\[\])?/NULL/g;
	$text =~ s/ DEFAULT / = /g;
	$text =~ s/CURRENT_USER/current_user/g;
	$text =~ s/"current_schema"/current_schema/g;
	return $text;
}

# Returns the lines that only one of two lists has; an empty string if they are equal.
sub differences
{
	my ($catalog, $document) = @_;
	return join "\n", (map { exists $document->{$_} ? () : "only in the catalog: $_" } sort keys %$catalog),
	  (map { exists $catalog->{$_} ? () : "only in docs/reference.md: $_" } sort keys %$document);
}

# A paragraph `name(arguments) → result`; a result of several columns is "table (...)" or "record (...)"
my %documented = map { $_ => 1 } $reference =~ /^(?:\| )?`(\w+\([^`]*\) → [^`]+)`(?: \|.*)?$/mg;
my %functions = map { short($_) => 1 } split /\n/, $c->safe_psql(q{
	SELECT format('%s(%s) → %s', p.proname,
		CASE WHEN p.prokind = 'p' THEN regexp_replace(pg_get_function_arguments(p.oid), '(^|, )IN ', '\1', 'g')
			WHEN p.proallargtypes IS NULL THEN pg_get_function_arguments(p.oid)
			ELSE regexp_replace(pg_get_function_arguments(p.oid), '(, |^)(OUT .*|TABLE\(.*)$', '') END,
		CASE WHEN p.prokind = 'p' THEN 'procedure' WHEN p.proallargtypes IS NULL THEN pg_get_function_result(p.oid)
			ELSE format('%s (%s)', CASE WHEN p.proretset THEN 'table' ELSE 'record' END,
				(SELECT string_agg(format('%I %s', a.name, format_type(a.type, NULL)), ', ' ORDER BY a.n)
				 FROM unnest(p.proargnames, p.proallargtypes, p.proargmodes) WITH ORDINALITY a(name, type, mode, n) WHERE a.mode IN ('o', 't'))) END)
	FROM pg_proc p WHERE p.pronamespace = 'shardfdw'::regnamespace});
cmp_ok(scalar keys %functions, '>', 20, 'there are functions');
is(differences(\%functions, \%documented), '', 'the functions are those of docs/reference.md');

# ## Views: - **`name`:** its columns, where these are not in a separate section
my ($views) = $reference =~ /^## Views\n(.*?)^## /ms;
my ($list) = $views =~ /^(- .*?)^(?!- )/ms;
my %listed = map { $_ => 1 } map { /`(\w+)`/g } $list =~ /^- \*\*(`\w+`(?:, `\w+`)*):\*\*/mg;
my %relations = map { $_ => 1 } split /\n/, $c->safe_psql(q{
	SELECT relname FROM pg_class WHERE relnamespace = 'shardfdw'::regnamespace AND relkind NOT IN ('i', 't')});
is(differences(\%relations, \%listed), '', 'the views are those of docs/reference.md');
is($c->safe_psql(q{SELECT string_agg(DISTINCT relkind::text, '') FROM pg_class WHERE relnamespace = 'shardfdw'::regnamespace}), 'v', 'all are views');
for (split /\n/, $c->safe_psql(q{SELECT attrelid::regclass || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
	WHERE relnamespace = 'shardfdw'::regnamespace AND attnum > 0 ORDER BY 1}))
{
	my ($view, $column) = /^shardfdw\.(\w+)\.(\w+)$/;
	like($reference, qr/^- \*\*.*`\Q$view\E`.*`\Q$column\E`|[Vv]iew `\Q$view\E`[^#]*`\Q$column\E`|^### \Q$view\E\n[^#]*`\Q$column\E`/m, "column $column of $view");
}

# ## Settings: - **`shardfdw.name`** (default ...): ...; except the setting of builds for tests. Those that EXPLAIN
# (SETTINGS) shows, and one more, are developer options.
my $is_option = q{name ~ '^shardfdw\.(enable_(?!ddl_|coordinator_)|query_per_node)'};
my %settings = map { split /\|/ } split /\n/, $c->safe_psql(qq{
	LOAD 'shardfdw';
	SELECT name, CASE WHEN $is_option THEN 'option' ELSE 'setting' END FROM pg_settings
	WHERE name LIKE 'shardfdw.%' AND name <> 'shardfdw.fault_points'});
my $setting = qr/^- \*\*`(shardfdw\.\w+)`\*\* \(default /m;
my %explained = map { $_ => 1 } $reference =~ /$setting/g;
is(differences({ map { $_ => 1 } grep { $settings{$_} eq 'setting' } keys %settings }, \%explained), '', 'the settings are those of docs/reference.md');
my %options = map { $_ => 1 } slurp_file('docs/developer_options.md') =~ /$setting/g;
is(join(' ', sort keys %options), join(' ', grep { $settings{$_} eq 'option' } sort keys %settings), 'the planner switches are those of docs/developer_options.md');

# Comments
is($c->safe_psql(q{
	SELECT string_agg(object, ', ') FROM (
		SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'shardfdw'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
		UNION ALL SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'shardfdw'::regnamespace AND obj_description(c.oid, 'pg_class') IS NULL
		UNION ALL SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
			WHERE c.relnamespace = 'shardfdw'::regnamespace AND a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL) x(object)}),
	'', 'each function, view and column has a comment');

# All other objects are in a separate, internal schema. The objects that the pages name must be in
# the public schema.
is($c->safe_psql(q{
	SELECT string_agg(DISTINCT n.nspname, ', ') FROM pg_depend d
	LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	JOIN pg_namespace n ON n.oid IN (p.pronamespace, c.relnamespace)
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shardfdw')}),
	'shardfdw, shardfdw_internal', 'the extension has two schemas');
my %named = map { $_ => 1 } split /\n/, $c->safe_psql(q{
	SELECT p.pronamespace::regnamespace || '.' || p.proname FROM pg_proc p WHERE p.pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal')
	UNION SELECT c.relnamespace::regnamespace || '.' || c.relname FROM pg_class c WHERE c.relnamespace::regnamespace IN ('shardfdw', 'shardfdw_internal')
	UNION SELECT s FROM unnest(ARRAY['shardfdw.follows_coordinator']) s WHERE current_setting(s, true) IS NOT NULL}); # settings that SHOW ALL does not show
for my $page ('README.md', glob('docs/*.md'))
{
	my %names = map { $_ => 1 } grep { !/^shardfdw[.](?:control|so|c|SETTING|enable_)$/ } slurp_file($page) =~ /\b(shardfdw(?:_internal)?\.\w+)/g;
	is(join(' ', grep { !$named{$_} && !$settings{$_} } sort keys %names), '', "what $page names is there");
}

done_testing();
