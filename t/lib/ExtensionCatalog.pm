# ExtensionCatalog.pm - all that the catalogs say of the extension, and how two databases differ in it
#
#   use ExtensionCatalog;
#   my $fresh    = catalog_of($server, 'fresh');
#   my $upgraded = catalog_of($server, 'upgraded');
#   is(join("\n", differences($fresh, $upgraded)), '', 'the same objects');
#
# Objects are the members of the extension, and whatever else is in its schemas. Each has properties, by name. OIDs are none,
# nor positions that dropped columns leave, nor the stamp pg_attver that minors from 2026 on put on columns of views. An object of a catalog that the query does not know has the
# property "not compared", which unknown_objects() lists.

package ExtensionCatalog;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(catalog_of differences unknown_objects);

# object, property, value
my $query = q{
WITH extension AS (SELECT * FROM pg_extension WHERE extname = 'shardfdw'),
member AS (SELECT d.classid, d.objid FROM pg_depend d JOIN extension e ON d.refobjid = e.oid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'),
space AS (SELECT extnamespace AS oid FROM extension UNION SELECT objid FROM member WHERE classid = 'pg_namespace'::regclass
	-- no member, see sql/install/10_wrapper.sql
	UNION SELECT oid FROM pg_namespace WHERE nspname = 'shardfdw_internal'),
object AS MATERIALIZED (SELECT x.classid, x.objid, i.type || ' ' || i.identity AS name FROM (
	SELECT classid, objid FROM member
	UNION SELECT 'pg_namespace'::regclass, oid FROM space
	UNION SELECT 'pg_extension'::regclass, oid FROM extension
	UNION SELECT tableoid, oid FROM pg_proc WHERE pronamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_class WHERE relnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_type WHERE typnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_operator WHERE oprnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_opclass WHERE opcnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_opfamily WHERE opfnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_collation WHERE collnamespace IN (SELECT oid FROM space)
	UNION SELECT tableoid, oid FROM pg_statistic_ext WHERE stxnamespace IN (SELECT oid FROM space)) x,
	pg_identify_object(x.classid, x.objid, 0) i)

-- of every object
SELECT o.name, 'is member', EXISTS (SELECT FROM member m WHERE m.classid = o.classid AND m.objid = o.objid)::text FROM object o
UNION ALL SELECT o.name, 'comment' || coalesce(' on column ' || a.attname, ''), d.description FROM object o JOIN pg_description d ON d.classoid = o.classid AND d.objoid = o.objid
	LEFT JOIN pg_attribute a ON o.classid = 'pg_class'::regclass AND a.attrelid = o.objid AND a.attnum = d.objsubid AND d.objsubid > 0
UNION ALL SELECT o.name, 'initial privileges' || coalesce(' on column ' || a.attname, ''), p.initprivs::text FROM object o JOIN pg_init_privs p ON p.classoid = o.classid AND p.objoid = o.objid
	LEFT JOIN pg_attribute a ON o.classid = 'pg_class'::regclass AND a.attrelid = o.objid AND a.attnum = p.objsubid AND p.objsubid > 0
UNION ALL SELECT o.name, 'label', s.provider || ' ' || s.label FROM object o JOIN pg_seclabel s ON s.classoid = o.classid AND s.objoid = o.objid
UNION ALL SELECT o.name, 'not compared', '' FROM object o WHERE o.classid NOT IN ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass,
	'pg_namespace'::regclass, 'pg_extension'::regclass, 'pg_event_trigger'::regclass, 'pg_foreign_data_wrapper'::regclass, 'pg_foreign_server'::regclass)

UNION ALL SELECT o.name, 'extension', jsonb_build_object('version', e.extversion, 'schema', e.extnamespace::regnamespace, 'relocatable', e.extrelocatable, 'owner', e.extowner::regrole,
	'requires', (SELECT jsonb_agg(r.extname ORDER BY r.extname) FROM pg_depend d JOIN pg_extension r ON r.oid = d.refobjid
		WHERE d.classid = 'pg_extension'::regclass AND d.objid = e.oid AND d.refclassid = 'pg_extension'::regclass),
	'configuration', (SELECT jsonb_agg(jsonb_build_array(c.relid::regclass, c.condition) ORDER BY c.relid::regclass::text) FROM unnest(e.extconfig, e.extcondition) c (relid, condition)))::text
	FROM object o JOIN extension e ON o.classid = 'pg_extension'::regclass AND o.objid = e.oid

UNION ALL SELECT o.name, 'schema', jsonb_build_object('owner', n.nspowner::regrole, 'acl', n.nspacl::text)::text FROM object o JOIN pg_namespace n ON o.classid = 'pg_namespace'::regclass AND o.objid = n.oid
UNION ALL SELECT o.name, 'default privileges of ' || a.defaclobjtype::text, a.defaclacl::text FROM object o JOIN pg_default_acl a ON o.classid = 'pg_namespace'::regclass AND o.objid = a.defaclnamespace

UNION ALL SELECT o.name, 'function', CASE WHEN p.prokind = 'a' THEN
	(SELECT (to_jsonb(a) - 'aggfnoid')::text FROM pg_aggregate a WHERE a.aggfnoid = p.oid) ELSE pg_get_functiondef(p.oid) END FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND o.objid = p.oid
UNION ALL SELECT o.name, 'function''s result', pg_get_function_result(p.oid) FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND o.objid = p.oid
UNION ALL SELECT o.name, 'function''s owner and rights', jsonb_build_object('owner', p.proowner::regrole, 'acl', p.proacl::text)::text FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND o.objid = p.oid

UNION ALL SELECT o.name, 'relation', jsonb_build_object('kind', c.relkind, 'owner', c.relowner::regrole, 'acl', c.relacl::text, 'options', c.reloptions, 'persistence', c.relpersistence,
	'row security', c.relrowsecurity, 'forced', c.relforcerowsecurity, 'identity', c.relreplident, 'method', (SELECT amname FROM pg_am WHERE oid = c.relam),
	'tablespace', c.reltablespace, 'partition', c.relispartition, 'parents', (SELECT jsonb_agg(inhparent::regclass ORDER BY inhseqno) FROM pg_inherits WHERE inhrelid = c.oid))::text
	FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND o.objid = c.oid
UNION ALL SELECT o.name, 'query', pg_get_viewdef(c.oid) FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND c.relkind IN ('v', 'm')
UNION ALL SELECT o.name, 'index', pg_get_indexdef(c.oid) || ' ' || (to_jsonb(i) - '{indexrelid,indrelid,indkey,indcollation,indclass,indoption,indexprs,indpred}'::text[])::text
	FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND o.objid = c.oid JOIN pg_index i ON i.indexrelid = c.oid
UNION ALL SELECT o.name, 'sequence', (to_jsonb(s) - '{seqrelid,seqtypid}'::text[] || jsonb_build_object('type', s.seqtypid::regtype))::text
	FROM object o JOIN pg_sequence s ON o.classid = 'pg_class'::regclass AND o.objid = s.seqrelid
UNION ALL SELECT o.name, 'column ' || a.attname, jsonb_build_object('position', row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum),
	'type', format_type(a.atttypid, a.atttypmod), 'not null', a.attnotnull, 'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'generated', a.attgenerated,
	'collation', a.attcollation::regcollation, 'storage', a.attstorage, 'compression', a.attcompression, 'acl', a.attacl::text, 'options', (SELECT jsonb_agg(x) FROM unnest(a.attoptions) x WHERE x NOT LIKE 'pg_attver=%'), 'fdw options', a.attfdwoptions)::text
	FROM object o JOIN pg_attribute a ON o.classid = 'pg_class'::regclass AND o.objid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
UNION ALL SELECT o.name, 'constraint ' || c.conname, pg_get_constraintdef(c.oid) || ' ' || c.convalidated::text || coalesce(' ' || obj_description(c.oid, 'pg_constraint'), '')
	FROM object o JOIN pg_constraint c ON o.objid = CASE o.classid WHEN 'pg_class'::regclass THEN c.conrelid WHEN 'pg_type'::regclass THEN c.contypid END
UNION ALL SELECT o.name, 'trigger ' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text || coalesce(' ' || obj_description(t.oid, 'pg_trigger'), '')
	FROM object o JOIN pg_trigger t ON o.classid = 'pg_class'::regclass AND o.objid = t.tgrelid AND NOT t.tgisinternal
UNION ALL SELECT o.name, 'rule ' || r.rulename, pg_get_ruledef(r.oid) || ' ' || r.ev_enabled::text FROM object o JOIN pg_rewrite r ON o.classid = 'pg_class'::regclass AND o.objid = r.ev_class
UNION ALL SELECT o.name, 'policy ' || p.polname, jsonb_build_object('command', p.polcmd, 'permissive', p.polpermissive, 'roles', p.polroles::regrole[]::text,
	'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid))::text
	FROM object o JOIN pg_policy p ON o.classid = 'pg_class'::regclass AND o.objid = p.polrelid

UNION ALL SELECT o.name, 'type', jsonb_build_object('kind', t.typtype, 'owner', t.typowner::regrole, 'acl', t.typacl::text, 'base', format_type(t.typbasetype, t.typtypmod), 'not null', t.typnotnull,
	'default', t.typdefault, 'collation', t.typcollation::regcollation, 'input', t.typinput::regproc, 'labels', (SELECT jsonb_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
	'range', (SELECT r.rngsubtype::regtype FROM pg_range r WHERE r.rngtypid = t.oid))::text
	FROM object o JOIN pg_type t ON o.classid = 'pg_type'::regclass AND o.objid = t.oid

UNION ALL SELECT o.name, 'event trigger', jsonb_build_object('event', t.evtevent, 'function', t.evtfoid::regprocedure, 'enabled', t.evtenabled, 'tags', t.evttags, 'owner', t.evtowner::regrole)::text
	FROM object o JOIN pg_event_trigger t ON o.classid = 'pg_event_trigger'::regclass AND o.objid = t.oid
UNION ALL SELECT o.name, 'wrapper', jsonb_build_object('handler', w.fdwhandler::regprocedure, 'validator', w.fdwvalidator::regprocedure, 'options', w.fdwoptions, 'acl', w.fdwacl::text, 'owner', w.fdwowner::regrole)::text
	FROM object o JOIN pg_foreign_data_wrapper w ON o.classid = 'pg_foreign_data_wrapper'::regclass AND o.objid = w.oid
UNION ALL SELECT o.name, 'server', jsonb_build_object('wrapper', (SELECT fdwname FROM pg_foreign_data_wrapper WHERE oid = s.srvfdw), 'type', s.srvtype, 'version', s.srvversion, 'options', s.srvoptions,
	'acl', s.srvacl::text, 'owner', s.srvowner::regrole)::text FROM object o JOIN pg_foreign_server s ON o.classid = 'pg_foreign_server'::regclass AND o.objid = s.oid

-- CREATE EXTENSION sets it
UNION ALL SELECT 'database', 'settings', array_agg(setting ORDER BY setting)::text FROM pg_db_role_setting, unnest(setconfig) setting
	WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
};

# catalog_of(server, database[, SQL before[, SQL after]]): a hash of "object: property" -> value.
# With BEGIN and a change before the query, and ROLLBACK after it, the result shows the state after
# the change.
sub catalog_of
{
	my ($server, $dbname, $before, $after) = @_;
	my $sql = join ";\n", 'SET search_path = pg_catalog', $before // (),
	  "SELECT name || E'\\t' || property || E'\\t' || coalesce(to_json(value)::text, '') FROM ($query) c (name, property, value)", $after // ();
	my %catalog;

	for my $line (split /\n/, $server->safe_psql($dbname, "$sql;"))
	{
		my ($object, $property, $value) = split /\t/, $line, 3;
		next if !defined $value;
		die "twice: $object: $property" if exists $catalog{"$object: $property"};
		$catalog{"$object: $property"} = $value;
	}
	return \%catalog;
}

# A line for each property that two catalogs do not agree on.
sub differences
{
	my ($left, $right) = @_;
	my @lines;

	for my $key (sort keys %{ { %$left, %$right } })
	{
		my ($was, $is) = ($left->{$key}, $right->{$key});
		push @lines, !defined $is ? "lacks $key" : !defined $was ? "has also $key" : $was ne $is ? "$key: $is, not $was" : ();
	}
	return @lines;
}

sub unknown_objects
{
	my ($catalog) = @_;
	return grep { /: not compared$/ } sort keys %$catalog;
}

1;
