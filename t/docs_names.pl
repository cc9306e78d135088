# Names from before 1.0 must be nowhere in the tree: functions, views, columns and arguments that
# have been renamed. Only CHANGELOG.md may contain them.

use strict;
use warnings;

use File::Find;
use PostgreSQL::Test::Utils;
use Test::More;

my @words = qw(
  alter_sharding compare_copies create_time_shards declare_reference_table disconnect_all dismiss_commit
  distribute_schema distributed_schemas drop_time_shards move_copy placed_shards replicate_table
  set_shard_schema stale_copies take_over_coordinator undistribute_schema unreplicate_table verify_cluster);

# Words that are internal now, or have another meaning elsewhere.
my @phrases = (
	qr/\bcopies\s*=>\s*\d/,
	qr/\bshard_schema\s*=>/,
	qr/\bcompare_rows\s*=>/,
	qr/"(?:user|check|column)"\s*=>/,
	qr/\ball_commits_received\s*=>/,
	qr/\bcheck_cluster\(true\)/,
	qr/\bCALL shardfdw\./,
	qr/\bshardfdw\.(?:builtin_partial_aggregates|coordinator_identity|declare_commits_received)\b/,
	qr/\bshardfdw\.(?:library_version|make_partial_aggregates|shard_object_name|shard_sizes|user_aggregates)\b/);

my $word = join '|', @words;
my $name = join '|', "\\b(?:$word)\\b", @phrases;
my @files;
find({ no_chdir => 1, wanted => sub {
	$File::Find::prune = 1 if m{/(?:tmp_check\w*|results|output_iso|log)$};
	push @files, $_ if -f && !/\.(?:o|d|so|svg|png|gz|bc)$/ && !m{/shardfdw--[\d.]+\.sql$|t/docs_names\.pl$};
} }, 'src', 'sql', 'expected', 'specs', 't', 'docs', 'contrib', 'bench', 'scripts', 'debian', 'README.md');
cmp_ok(scalar @files, '>', 500, 'there are files');

my @found;
for my $file (sort @files)
{
	my $text = slurp_file($file);
	while ($text =~ /($name)/g)
	{
		my $old = $1;
		push @found, "$file:" . (1 + substr($text, 0, $-[0]) =~ tr/\n//) . ": $old";
	}
}
is(join("\n", @found), '', 'no file has an old name');

done_testing();
