# SourceMessages.pm - the messages that users can meet, as the sources have them
#
# Those of ereport() in src/, those that an error which was caught gets there, and those of RAISE in sql/install/. Left out:
# errmsg_internal(), elog() and RAISE EXCEPTION without a SQLSTATE, what only DEBUG levels show, fault points (src/fault.c),
# and messages that are those of another error as a whole.
# Commands that run on a node stand in literals: their messages are users' messages, too.

package SourceMessages;

use strict;
use warnings;

use Exporter 'import';
use File::Find;

our @EXPORT = qw(source_messages message_form);

# As slurp_file() of PostgreSQL::Test::Utils, which would hide the output of scripts/messages.
sub _slurp
{
	my ($file) = @_;
	open my $handle, '<', $file or die "could not read $file: $!\n";
	local $/;
	return scalar <$handle>;
}

# A message with "..." for each placeholder, or piece of text that is computed.
sub message_form
{
	my ($text) = @_;
	$text =~ s/\.\.\.+/.../g;
	return $text;
}

# The position after the bracket that closes the one at $at. Skips strings.
sub _closing
{
	my ($text, $at, $quote) = @_;
	my $depth = 0;

	pos($text) = $at;
	while ($text =~ /\G(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*'|([()])|[^()"']+)/gcs)
	{
		next if !defined $1;
		$depth += $1 eq '(' ? 1 : -1;
		return pos($text) if $depth == 0;
	}
	return length $text;
}

sub _condition_names
{
	my %codes;
	my $share = `pg_config --sharedir`;
	chomp $share;
	for (split /\n/, _slurp("$share/errcodes.txt"))
	{
		my ($code, $kind, $macro, $name) = split;
		next if !defined $macro || $code !~ /^[0-9A-Z]{5}$/;
		$codes{$macro} = $code;
		# PL/pgSQL uses the first error with a name
		$codes{$name} //= $code if defined $name && $kind eq 'E';
	}
	return \%codes;
}

# The strings of a C expression: of a ternary one each of its results; pieces side by side are one string.
sub _c_strings
{
	my ($text) = @_;
	my @strings = ('');

	$text =~ s/\b[A-Z0-9_]*INT64_FORMAT\b/"%d"/g;
	while ($text =~ /\G\s*(?:"((?:[^"\\]|\\.)*)"|([^"\s]))/gc)
	{
		if (defined $1) { $strings[-1] .= $1; }
		elsif ($2 eq ',') { last; }
		else { push @strings, '' if $strings[-1] ne ''; }
	}
	return map { s/\\(.)/$1/gr =~ s/%[-+ #0-9.*]*(?:ll|l|z)?[a-zA-Z]/.../gr =~ s/%%/%/gr } grep { $_ ne '' } @strings;
}

sub _of_c
{
	my ($file, $codes) = @_;
	my $text = _slurp($file);
	my @messages;

	$text =~ s{/\*.*?\*/}{ $& =~ s/[^\n]//gr }ges;
	while ($text =~ /\bereport\s*\(\s*(\w+)/g)
	{
		my ($level, $begin) = ($1, $-[0]);
		my $call = substr($text, $begin, _closing($text, $begin + 7) - $begin);
		my ($code) = $call =~ /errcode\(\s*(?:[^()?]*\?\s*)?(ERRCODE_\w+)/;
		my $line = 1 + (substr($text, 0, $begin) =~ tr/\n//);

		next if $level =~ /^DEBUG/;
		while ($call =~ /\berrmsg(_plural)?\s*\(/g)
		{
			my ($plural, $at) = ($1, $+[0]);
			my $arguments = substr($call, $at, _closing($call, $at - 1) - 1 - $at);
			my @texts = _c_strings($arguments);
			if ($plural)
			{
				push @texts, _c_strings($arguments =~ s/^\s*(?:"(?:[^"\\]|\\.)*"\s*)+,//r);
			}
			push @messages, map { { text => $_, sqlstate => $codes->{ $code // '' }, level => $level, file => $file, line => $line } } @texts;
		}
	}
	# an error that was caught gets another message
	while ($text =~ /->sqlerrcode = (ERRCODE_\w+);[^}]*?->message = [^;]*?psprintf\(("[^;]*);/g)
	{
		my ($code, $arguments, $begin) = ($1, $2, $-[0]);
		push @messages, map { { text => $_, sqlstate => $codes->{$code}, level => 'ERROR', file => $file, line => 1 + (substr($text, 0, $begin) =~ tr/\n//) } } _c_strings($arguments);
	}
	return @messages;
}

# The text of an expression of SQL: strings, and "..." for the rest. format() has its placeholders, the constant
# refusal its text.
sub _sql_text
{
	my ($expression, $refusal) = @_;

	if ($expression =~ /^(?:pg_catalog\.)?format\('((?:[^']|'')*)'\s*(?:,\s*(.*))?\)$/s)
	{
		my ($format, $arguments) = ($1, $2 // '');
		$format =~ s/%s/$refusal/ if $arguments =~ /^refusal\b/;
		return $format =~ s/''/'/gr =~ s/%+(?:\d+\$)?[sIL]/.../gr;
	}
	return join '', map { /^'(.*)'$/s ? $1 =~ s/''/'/gr : $_ eq 'refusal' ? $refusal : '...' }
	  map { s/^\s+|\s+$//gr } split /\|\|/, $expression;
}

# SQL text that begins inside of literals, as SQL outside of literals. Several adjacent literals may
# contain it, and it may go through format().
sub _of_literal
{
	my ($text) = @_;
	return $text =~ s/(?<!')'\s*\n(?:\s*--[^\n]*\n)*\s*(?:\|\| )?'(?!')//gr =~ s/''/'/gr =~ s/%%/%/gr;
}

sub _of_sql
{
	my ($file, $codes, $text) = @_;
	my @messages;

	while ($text =~ /\bRAISE\s+(EXCEPTION|WARNING|NOTICE)\b\s*/g)
	{
		my ($level, $begin) = ($1, pos $text);
		my $line = 1 + (substr($text, 0, $begin) =~ tr/\n//);
		my $rest = substr($text, $begin);
		my ($code, $message);

		$rest = _of_literal($rest) if $rest =~ /^(?:USING\s+\w+ = (?:pg_catalog\.format\()?)?''/;
		if ($rest =~ /^'((?:[^']|'')*)'/)
		{
			next if $level eq 'EXCEPTION';    # that is elog()
			$message = $1 =~ s/''/'/gr =~ s/%+/.../gr;
		}
		elsif ($rest =~ /^USING\b/)
		{
			($code) = $rest =~ /^USING\s+ERRCODE = '(\w+)'/;
			$code //= 'another' if $rest =~ /^USING\s+ERRCODE = /;
			$rest =~ /\bMESSAGE = /g or next;
			my $at = pos $rest;
			# up to a comma or semicolon outside of brackets and strings
			my $end = $at;
			while (substr($rest, $end) =~ /^([^(',;]+|'(?:[^']|'')*'|\()/)
			{
				$end = $1 eq '(' ? _closing($rest, $end) : $end + length $1;
			}
			my @refusals = substr($text, 0, $begin) =~ /refusal CONSTANT text := format\('([^']*)'/g;
			$message = _sql_text(substr($rest, $at, $end - $at), @refusals ? $refusals[-1] =~ s/%s/.../gr : '...');
		}
		push @messages, { text => $message, sqlstate => defined $code ? $codes->{$code} : $level eq 'EXCEPTION' ? 'P0001' : undef, level => $level, file => $file, line => $line };
	}
	# rows of obstacle(condition, message, ...), which are raised later
	while ($text =~ /\bobstacle\('(\w+)',\s*(?=format\()/g)
	{
		my ($code, $begin) = ($1, pos $text);
		my @refusals = substr($text, 0, $begin) =~ /refusal CONSTANT text := format\('([^']*)'/g;
		my $message = _sql_text(substr($text, $begin, _closing($text, $begin + 6) - $begin), @refusals ? $refusals[-1] =~ s/%s/.../gr : '...');
		my $is_warning = $code eq 'warning';
		push @messages, { text => $message, sqlstate => $is_warning ? undef : $codes->{$code}, level => $is_warning ? 'WARNING' : 'EXCEPTION',
			file => $file, line => 1 + (substr($text, 0, $begin) =~ tr/\n//) };
	}
	return @messages;
}

# All messages: hashes of text, sqlstate (undefined if it comes from another message, or for a
# warning), level, file, line.
sub source_messages
{
	my $codes = _condition_names();
	my (@files, @messages);

	find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.c$/ && $_ ne 'src/fault.c' } }, 'src');
	push @messages, _of_c($_, $codes) for sort @files;
	push @messages, _of_sql($_, $codes, _slurp($_)) for sort glob 'sql/install/*.sql';
	# strings side by side are one, for format(); lines are counted without
	push @messages, _of_sql($_, $codes, _slurp($_) =~ s/"\s*\n\s*"//gr =~ s/%%/%/gr) for sort @files;
	$_->{text} = message_form($_->{text}) for @messages;
	return grep { $_->{text} =~ s/\.\.\.//gr =~ /[a-z]{3}/ } @messages;
}

1;
