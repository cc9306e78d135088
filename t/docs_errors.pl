# docs/errors.md must explain each message that users can get, with its SQLSTATE. It must not
# contain messages that the sources do not have.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use SourceMessages;
use Test::More;

# message -> its SQLSTATEs ('' for a node's error or a warning), and its place
my (%states, %place);
for (source_messages())
{
	$states{ $_->{text} }{ $_->{level} =~ /^(?:ERROR|FATAL|EXCEPTION)$/ && $_->{sqlstate} ? $_->{sqlstate} : '' } = 1;
	$place{ $_->{text} } //= "$_->{file}:$_->{line}";
}
cmp_ok(scalar keys %states, '>', 300, 'the sources have messages');

# | `message`, `message` | SQLSTATE | ... |; each message is in one row
my (%explained, %alone, @twice, @long);
my $row = 0;
for (split /\n/, slurp_file('docs/errors.md'))
{
	$row++;
	next if !/^\| `/;
	my (undef, @cells) = split / *\| ?/;
	push @long, grep { length > 200 } @cells;
	my @texts = $cells[0] =~ /`([^`]+)`/g;
	$alone{ $texts[0] } = @texts == 1;
	for my $message (@texts)
	{
		push @twice, "$row: $message" if $explained{$message};
		$explained{$message} = $cells[1];
	}
}
is(join("\n", map { "$place{$_}: $_" } grep { !exists $explained{$_} } sort keys %states), '', 'each message of the sources is in docs/errors.md');
is(join("\n", grep { !exists $states{$_} } sort keys %explained), '', 'docs/errors.md has no other');
is(join("\n", @twice), '', 'and none twice');
is(join("\n", map { my $message = $_; map { "$place{$message}: $_ of: $message" } grep { $_ ne '' && $explained{$message} !~ /`$_`/ } sort keys %{ $states{$message} } }
	grep { exists $explained{$_} } sort keys %states), '', 'SQLSTATEs are those of the sources');
is(join("\n", map { my $message = $_; map { "$_ of: $message" } grep { !$states{$message}{$_} } $explained{$message} =~ /`([0-9A-Z]{5})`/g }
	grep { $states{$_} && !$states{$_}{''} && $alone{$_} } sort keys %explained), '', 'and no others');
is(join("\n", @long), '', 'cells are short');

done_testing();
