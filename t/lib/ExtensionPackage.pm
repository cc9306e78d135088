# ExtensionPackage.pm - packages of versions that do not exist yet, and an installation of PostgreSQL to put them into
#
# A package is what "make install" makes of a copy of the source tree: the library, the control file and all scripts.
# The installation is a copy of the one that the tests are run with, so that other tests do not see it; servers that are
# made after new() run from it.
#
#   my $package = ExtensionPackage->new or plan(skip_all => 'needs a private installation');
#   $package->begin('99.0', "SELECT 1;\n");    # as after a release of the present version, with an upgrade script
#   $package->edit('sql/install/10_wrapper.sql', qr/.../, '...');
#   $package->install;                         # servers that run go on with the library that they have loaded

package ExtensionPackage;

use strict;
use warnings;

use Carp;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils ();

# Runs a command, quietly unless it fails.
sub run
{
	my @command = @_;
	my $log = PostgreSQL::Test::Utils::tempdir() . '/command.log';

	system("( @command ) >$log 2>&1") == 0 or croak "@command:\n" . PostgreSQL::Test::Utils::slurp_file($log);
}

# Returns undef if there is no private installation, as made by scripts/check.
sub new
{
	my ($class) = @_;
	my $from = dirname(dirname(dirname(abs_path(__FILE__))));
	my $pg_config = $ENV{PG_CONFIG};
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my ($bin, $private_bin);

	return undef if !$pg_config;
	chomp($bin = `$pg_config --bindir`);
	chomp($private_bin = `pg_config --bindir`);
	return undef if $private_bin !~ /^(.+)\Q$bin\E$/;

	my $self = bless { tree => "$dir/tree", root => "$dir/inst", pg_config => $pg_config }, $class;
	run("cp -R '$1' '$dir/inst'");
	mkdir "$dir/tree" or croak "$dir/tree: $!";
	# objects are not older than their sources
	run("cd '$from' && cp -Rp Makefile shardfdw.control CHANGELOG.md .gitignore contrib src sql scripts '$dir/tree'");
	$ENV{PATH} = "$dir/inst$bin:$ENV{PATH}";
	return $self;
}

sub tree { return $_[0]->{tree}; }

sub version
{
	my ($self) = @_;
	return PostgreSQL::Test::Utils::slurp_file("$self->{tree}/shardfdw.control") =~ /^default_version = '(.*)'$/m ? $1 : croak 'no version';
}

# The versions whose install scripts are frozen.
sub released
{
	my ($self) = @_;
	my $version = $self->version;
	return grep { $_ ne $version } map { /--([0-9.]+)\.sql$/ ? $1 : () } sort glob "$self->{tree}/sql/shardfdw--*.sql";
}

# begin(version, script): the present install script becomes a released one, and script leads from it to version. Returns the version that was.
sub begin
{
	my ($self, $version, $script) = @_;
	my $old = $self->version;

	run("make -s -C '$self->{tree}' PG_CONFIG='$self->{pg_config}' sql/shardfdw--$old.sql");
	$self->edit('shardfdw.control', qr/^default_version = .*$/m, "default_version = '$version'");
	PostgreSQL::Test::Utils::append_to_file("$self->{tree}/sql/shardfdw--$old--$version.sql", $script);
	return $old;
}

# edit(file, pattern, replacement): replaces the first match, in the one of the files that has a
# match. file may be a shell pattern for several files. replacement may be code.
sub edit
{
	my ($self, $files, $pattern, $replacement) = @_;
	my @files = grep { PostgreSQL::Test::Utils::slurp_file($_) =~ $pattern } glob "$self->{tree}/$files";

	croak scalar(@files) . " of $files have something like $pattern" if @files != 1;
	my $text = PostgreSQL::Test::Utils::slurp_file($files[0]);
	$text =~ s/$pattern/ref $replacement ? $replacement->() : $replacement/e;
	open my $out, '>', $files[0] or croak "$files[0]: $!";
	print $out $text;
	close $out or croak "$files[0]: $!";
}

sub install
{
	my ($self) = @_;
	my $version = $self->version;

	# the install script is always made again, because its time stamp may be equal
	unlink "$self->{tree}/sql/shardfdw--$version.sql";
	# compilers that cache want a home
	run("CCACHE_DISABLE=1 make -s -C '$self->{tree}' PG_CONFIG='$self->{pg_config}' FAULT_POINTS=1 DESTDIR='$self->{root}' install");
}

1;
