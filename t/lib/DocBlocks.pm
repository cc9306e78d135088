# DocBlocks.pm - the code blocks of a page of the documentation, and a run of them
#
#   use DocBlocks;
#   my @blocks = doc_blocks('docs/start.md');
#   my %count = run_blocks($cluster, 'docs/start.md');
#
# A comment on the line before a block describes the block. There may be several such lines.
#
#   <!-- fragment: reason -->  the block does not run by itself
#   <!-- output -->            the output of the block before it, with "..." for parts that vary
#
#   <!-- output: 15 -->        the same on that major version
#   <!-- before: SQL -->       SQL that runs before the block, and is not shown

package DocBlocks;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More ();

our @EXPORT = qw(doc_blocks run_blocks);

# The blocks of a page: hashes of language, text, line (1-based), section ('' before the first one).
# Some have fragment: the reason; before: SQL; output: the major version, or 'all'.
sub doc_blocks
{
	my ($page) = @_;
	my ($comment, $before, $section, $block, @blocks) = ('', '', '');
	my $line = 0;

	for (split /\n/, slurp_file($page), -1)
	{
		$line++;
		if ($block)
		{
			if (/^ *```$/)
			{
				push @blocks, $block;
				($block, $comment, $before) = (undef, '', '');
			}
			else { $block->{text} .= s/^ {0,$block->{indent}}//r . "\n"; }
		}
		elsif (/^( *)```(\w*)$/)
		{
			$block = { indent => length $1, language => $2, text => '', line => $line, section => $section };
			$block->{fragment} = $1 if $comment =~ /^<!-- fragment: (.+) -->$/;
			$block->{before} = $before if $before;
			$block->{output} = $1 // 'all' if $comment =~ /^<!-- output(?:: (\d+))? -->$/;
		}
		else
		{
			$comment = s/^ +//r;
			$before = /^ *<!-- before: (.+) -->$/ ? "$before$1;\n" : '';
			$section = $1 if /^## (.+)$/;
		}
	}
	die "$page: the block of line $block->{line} has no end" if $block;
	return @blocks;
}

# The output without psql's decoration: lines of dashes, the head of plans, the number of rows,
# blanks.
sub _shown
{
	my ($text) = @_;
	return grep { !/^(?:|[-+]+|QUERY PLAN|\(\d+ rows?\))$/ } map { s/\s+/ /gr =~ s/^ | $//gr } split /\n/, $text;
}

# The addresses 10.0.0.11, 10.0.0.12, ... of pages are those of nodes 1, 2, ...
sub _here
{
	my ($c, $text) = @_;
	my $node = sub { [ $c->node_address($_[0] - 10) ] };

	$text =~ s/\bhost '10\.0\.0\.(1[1-9])'/my $at = $node->($1); "host '$at->[0]', port '$at->[1]'"/ge;
	$text =~ s/\bhost => '10\.0\.0\.(1[1-9])'/my $at = $node->($1); "host => '$at->[0]', port => $at->[1]"/ge;
	$text =~ s/\bdbname '\w+'/dbname '$c->{dbname}'/g;
	return $text;
}

# Runs the blocks of a page in order: SQL with psql, one session per block, and shell blocks in the
# same folder. One test for each block, and for each output. Returns the numbers of each kind: run,
# outputs, fragments.
sub run_blocks
{
	my ($c, $page) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $major = int($c->safe_psql('SHOW server_version_num') / 10000);
	my %count = (run => 0, outputs => 0, fragments => 0);
	my $shown = '';

	for my $block (doc_blocks($page))
	{
		my $name = "$page:$block->{line}";
		if ($block->{fragment})
		{
			$count{fragments}++;
		}
		elsif ($block->{language} eq 'sql')
		{
			$c->safe_psql($block->{before}) if $block->{before};
			my ($rc, $out, $err) = $c->psql("\\cd $folder\n" . _here($c, $block->{text}), on_error_stop => 1,
				extra_params => [ '-P', 'format=aligned', '-P', 'tuples_only=off', '-P', 'pager=off' ]);
			Test::More::is($rc, 0, "$name runs") or Test::More::diag($err);
			$shown = $out;
			$count{run}++;
		}
		elsif ($block->{language} eq 'sh')
		{
			Test::More::is(system('sh', '-e', '-c', "cd '$folder'\n$block->{text}"), 0, "$name runs");
			$count{run}++;
		}
		elsif ($block->{output} && $block->{output} =~ /^(?:all|$major)$/)
		{
			my $pattern = join "\n", map { $_ eq '...' ? '(?s:.*)' : quotemeta =~ s/\\\.\\\.\\\./.*/gr } _shown($block->{text});
			Test::More::like(join("\n", _shown($shown)), qr/(?:^|\n)$pattern$/, "$name is what is shown");
			$count{outputs}++;
		}
	}
	return %count;
}

1;
