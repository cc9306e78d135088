# Links of the documentation must point to pages, files and headings that exist. Each page must be
# in mkdocs.yml. Lines and table cells must be short, so that pages can be read in a terminal.

use strict;
use warnings;

use DocBlocks;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

# A page without its code blocks.
sub prose { return slurp_file($_[0]) =~ s/^ *```.*?^ *```$//msgr; }

# The anchors that code hosts make of headings, of which equal ones end in -1, and those in the text.
sub anchors
{
	my ($page) = @_;
	my (%anchors, %seen);

	for my $heading (prose($page) =~ /^#+ +(.+)$/mg)
	{
		my $anchor = lc($heading) =~ s/[^\w\- ]//gr =~ tr/ /-/r;
		$anchors{ $seen{$anchor}++ ? "$anchor-" . ($seen{$anchor} - 1) : $anchor } = 1;
	}
	$anchors{$_} = 1 for prose($page) =~ /<a id="([\w-]+)">/g;
	return \%anchors;
}

my @pages = grep { -e } 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md', glob('docs/*.md'), glob('contrib/*/*.md');
my ($links, %anchors) = (0);
for my $page (@pages)
{
	my @broken;

	for my $link (prose($page) =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $target = $path eq '' ? $page : dirname($page) . "/$path";
		$target =~ s{^\./|[^/]+/\.\./}{}g;
		$links++;
		push @broken, $link if !-e $target || (defined $anchor && !($anchors{$target} //= anchors($target))->{$anchor});
	}
	is(join(' ', @broken), '', "links of $page");
}
cmp_ok($links, '>', 100, 'there are links');

# Each limit has an anchor, which no other limit or heading has. limits.md links to each section of the other pages.
my (%limits, %sections);
for my $page (glob 'docs/limits*.md')
{
	my ($section, @without) = ('');
	for my $line (split /\n/, slurp_file($page) =~ s/^.*?(?=^## )//msr)
	{
		if ($line =~ /^#+ +(.+)$/) { $section = basename($page) . '#' . (lc($1) =~ s/[^\w\- ]//gr =~ tr/ /-/r) }
		next if $line !~ /^- /;
		$sections{$section} = 1 if $page ne 'docs/limits.md';
		if ($line =~ /^- <a id="([a-z-]+)"><\/a>\*\*/) { push @{ $limits{$1} }, $page }
		else { push @without, $line }
	}
	is(join("\n", @without), '', "limits of $page have anchors");
}
cmp_ok(scalar keys %limits, '>', 300, 'there are limits');
is(join(' ', grep { @{ $limits{$_} } > 1 } sort keys %limits), '', 'anchors of limits differ');
is(join(' ', map { my $page = $_; grep { $limits{$_} } map { lc($_) =~ s/[^\w\- ]//gr =~ tr/ /-/r } prose($page) =~ /^#+ +(.+)$/mg } glob 'docs/limits*.md'),
	'', 'no heading has the anchor of a limit');
my $index = slurp_file('docs/limits.md');
is(join(' ', grep { $index !~ /\]\(\Q$_\E\)/ } sort keys %sections), '', 'limits.md links to each section');

# Columns of a line, tabs to four; a line with a link may be longer, since links cannot be broken.
for my $page (@pages)
{
	my ($number, @long) = (0);

	for my $line (split /\n/, slurp_file($page))
	{
		$number++;
		utf8::decode($line);
		if ($line =~ /^\|/)
		{
			push @long, "$page:$number: a cell of " . length for grep { length > 200 } map { s/^ +| +$//gr } split /(?<!\\)\|/, $line;
			next;
		}
		my $width = length($line =~ s/\t/    /gr);
		push @long, "$page:$number: $width columns" if $width > 120 && $line !~ /\]\([^)]*\)|https?:/;
	}
	is(join("\n", @long), '', "lines and cells of $page are short");
}

# The picture of the benchmarks has the figures of the page.
my $benchmarks = slurp_file('docs/benchmarks.md');
for my $figure (slurp_file('bench/glance.json') =~ /\[("[^"]+", [\d.]+)\]/g)
{
	my ($name, $ratio) = $figure =~ /"([^"]+)", ([\d.]+)/;
	my ($begin) = $name =~ /^(\w+)/;
	my @rows = grep { /\Q$begin\E/i || ($begin eq 'TPC' && /^\| all /) } $benchmarks =~ /^(\|.*)$/mg;
	ok(scalar(grep { my $row = $_; grep { abs($_ - $ratio) < 0.006 || ($_ > 0 && abs(1 / $_ - $ratio) < 0.006) } $row =~ /\b([0-9]\.\d\d)\b/g } @rows), "$name is measured");
	like(slurp_file('docs/images/glance.svg'), qr/>\Q$ratio\E</, "$name is drawn");
}

# Each block of commands is run by a test that names its page, or has a reason why it is not run.
my $tests = join '', map { slurp_file($_) } grep { slurp_file($_) =~ /^use DocBlocks;/m } glob 't/*.pl';
for my $page (@pages)
{
	my @commands = grep { $_->{language} =~ /^(?:sql|sh|python)$/ } doc_blocks($page);
	my @not_run = grep { !$_->{fragment} } $tests =~ /\Q$page\E/ ? () : @commands;

	is(join(' ', map { "$page:$_->{line}" } @not_run), '', "commands of $page are run, or say why not") if @commands;
}

my %listed = map { $_ => 1 } slurp_file('mkdocs.yml') =~ /: (\w+\.md)$/mg;
is(join(' ', grep { !$listed{$_} } map { basename $_ } glob 'docs/*.md'), '', 'mkdocs.yml has each page');

done_testing();
