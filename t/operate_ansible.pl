# contrib/ansible: Ansible must be able to read the playbook, where it is installed. The role must set what the page
# says that a node needs. contrib/ansible/try runs the playbook.

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $role = 'contrib/ansible/roles/shardfdw_node';

# Settings of a node, as docs/install.md has them.
my ($table) = slurp_file('docs/install.md') =~ /^\*\*Settings\*\*(.*?)^\*\*/ms;
my @settings = $table =~ /^\| `(\w+)` /mg;
cmp_ok(scalar @settings, '>=', 3, 'settings of the page');
my $defaults = slurp_file("$role/defaults/main.yml");
like($defaults, qr/^  \Q$_\E: \w+$/m, "the role sets $_") for @settings;

# Each variable of the role has a default.
my %default = map { $_ => 1 } $defaults =~ /^(\w+):/mg;
my $used = join '', map { slurp_file($_) } glob("$role/tasks/*.yml $role/handlers/*.yml");
my %registered = map { $_ => 1 } $used =~ /^ *register: (\w+)/mg;
my @unknown = grep { !$default{$_} && !$registered{$_} } $used =~ /\b(shardfdw_(?!internal\b)\w+)/g;
is("@unknown", '', 'variables have defaults');

SKIP:
{
	skip 'ansible-playbook is not installed', 1 unless grep { -x "$_/ansible-playbook" } split /:/, $ENV{PATH};
	local $ENV{ANSIBLE_LOCAL_TEMP} = PostgreSQL::Test::Utils::tempdir();
	my ($ok, $out) = (0, '');
	$ok = IPC::Run::run([ 'ansible-playbook', '--syntax-check', '-i', 'contrib/ansible/inventory.example.yml', 'contrib/ansible/nodes.yml' ],
		'<', \undef, '>&', \$out);
	ok($ok, 'syntax') or diag $out;
}

done_testing();
