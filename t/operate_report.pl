# shardfdw-report writes one page about a cluster. The page must be true and complete, and safe
# whatever names and statements contain. It must be readable in a browser, wide and narrow, light
# and dark.

use strict;
use warnings;

use Browser;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 3, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 0\n");
my $folder = PostgreSQL::Test::Utils::tempdir();
my $report = "$folder/report.html";

# report(connection parameters, options): (exit code, the page, stderr)
sub report
{
	my ($parameters, @options) = @_;
	my ($out, $err);
	my $connection = $c->coordinator->connstr('postgres') . " $parameters";
	my $ok = IPC::Run::run([ 'contrib/report/shardfdw-report', '-o', $report, @options, $connection ], '<', \undef, '>', \$out, '2>', \$err);
	return ($ok ? 0 : 1, $ok ? slurp_file($report) : '', $out . $err);
}

# The text of a page's section, as a reader sees it, cells divided by |.
sub section
{
	my ($page, $title) = @_;
	my ($section) = $page =~ m{<section><h2>\Q$title\E</h2>(.*?)</section>}s or return "no section $title";
	return $section =~ s{</t[dh]>}{|}gr =~ s{</tr>|</li>|<br>}{\n}gr =~ s/<[^>]*>//gr =~ s/&lt;/</gr =~ s/&gt;/>/gr =~ s/&quot;/"/gr =~ s/&#x27;/'/gr =~ s/&amp;/&/gr;
}

# Names and statements as an attacker would have them.
my $hostile = q{<script>alert(1)</script>&"'};
$c->safe_psql(qq{
	CREATE TABLE reading (device bigint, day date, value numeric, PRIMARY KEY (device, day));
	SELECT shardfdw.shard_table('reading', 'device', shards => 8);
	INSERT INTO reading SELECT i % 100, date '2026-01-01' + i / 100, i FROM generate_series(0, 9999) i;
	CREATE TABLE "\\<b>&'" (id bigint PRIMARY KEY, v text);
	SELECT shardfdw.shard_table('"\\<b>&''"', 'id', shards => 4);
	CREATE TABLE country (code text PRIMARY KEY);
	SELECT shardfdw.create_reference_table('country')} =~ s/\\</</gr);
$c->node_safe_psql($_, 'SELECT pg_stat_force_next_flush()') for 1 .. 3;

my ($rc, $page, $said) = report('');
is($rc, 0, 'a report') or diag $said;
like($said, qr/report\.html: 0 findings/, 'says what it has found');
like(section($page, 'What needs attention'), qr/^Nothing that this page looks for/, 'nothing, in a cluster at rest');
like(section($page, 'Servers'), qr/^coordinator\|yes\|.*\nnode1\|yes\|.*\nnode2\|yes\|.*\nnode3\|yes\|/m, 'servers');
like(section($page, 'Sharded tables'), qr/^public\.reading\|device\|hash\|8\|/m, 'tables');
is(() = section($page, 'Busiest shards') =~ /^public\.reading_\d+\|node\d\|/mg, 8, 'shards');
is(join(' ', map { $_ // 0 } $page =~ m{<b>(\d+)</b>nodes.*<b>(\d+)</b>sharded tables.*<b>(\d+)</b>reference tables.*<b>(\d+)</b>shards}s), '3 2 1 12', 'counts');
is(() = $page =~ /<div class="node">/g, 3, 'a bar for each node');
unlike($page, qr/<script|<b>&'/, 'names are text');
like(section($page, 'Sharded tables'), qr/<b>&'/, 'and shown as they are');
unlike($page, qr{(?:src|href|url)\s*[=(]|https?://|\@import}, 'nothing from elsewhere');

# Scenes of trouble: sessions that wait, a forgotten prepared transaction, a table that differs, a job that failed.
my ($waiter, $holder) = map { WireClient->new($c->coordinator, 'postgres') } 1 .. 2;
$holder->query("BEGIN; UPDATE reading SET value = 0 WHERE device = 5");
$waiter->start_query("UPDATE reading SET value = 1 WHERE device = 5 AND '$hostile' <> ''" =~ s/"'(?=' <>)/"''/r);
$c->wait_for('SELECT count(*) = 1 FROM shardfdw.lock_waits');
my ($shard, $node) = @{ ($c->shards_of('reading'))[1] };
$c->node_safe_psql($node, "ALTER TABLE $shard DROP COLUMN value");
my $gid = $c->gid_prefix . '77:1';
$c->node_safe_psql(1, "BEGIN; CREATE TABLE forgotten (); PREPARE TRANSACTION '$gid'");
($rc, $page, $said) = report('');
is($rc, 0, 'a report of trouble') or diag $said;
like(section($page, 'What needs attention'), qr/check_cluster\(\) has found \d+ error/, 'a table that differs');
like(section($page, 'What needs attention'), qr/^Session \d+ waits for session \d+, on node\d/m, 'who waits');
like(section($page, 'Who waits for whom'), qr/idle in transaction\|UPDATE reading SET value = 1 WHERE device = 5 AND '\Q<script>\E/, 'with the statement');
like(section($page, 'Prepared transactions'), qr/^node1\|/m, 'what is prepared');
unlike($page, qr/<script/, 'statements are text');

# In a browser.
SKIP:
{
	my $browser = browser() or skip 'no chromium here', 4;
	for my $width (400, 1280)
	{
		for my $scheme (qw(light dark))
		{
			my $picture = "$PostgreSQL::Test::Utils::log_path/report-$width-$scheme.png";
			is(look($browser, $report, $width, $scheme, $picture), '', "$width wide, $scheme");
		}
	}
}

# A role without rights gets a page that names the missing rights. A node that is down comes first.
$c->safe_psql("CREATE ROLE nobody LOGIN");
($rc, $page, $said) = report('user=nobody');
is($rc, 0, 'a report for a role without rights') or diag $said;
unlike($page, qr/UPDATE reading/, 'without statements of others');
$holder->query('ROLLBACK');
$waiter->finish_query($PostgreSQL::Test::Utils::timeout_default);
$c->node_safe_psql(1, "ROLLBACK PREPARED '$gid'");
$c->kill9_node(3);
($rc, $page, $said) = report('', '--no-checks');
is($rc, 0, 'a report without a node') or diag $said;
like(section($page, 'What needs attention'), qr/^node3 does not answer\ncould not connect to node "node3"/, 'which is the first finding');
like(section($page, 'Checks that are not ok'), qr/^Not shown: not asked for$/, 'checks were not asked for');

# A report that cannot be made at all.
($rc, undef, $said) = report('dbname=template1');
is($rc, 1, 'a database without shardfdw');
like($said, qr/^shardfdw-report: .*does not exist/m, 'is an error that says so');

done_testing();
