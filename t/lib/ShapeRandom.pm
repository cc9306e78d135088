# ShapeRandom.pm - random scripts of statements whose form or names are unusual, for the comparison of sharded tables with plain ones
#
# The interface is that of DmlRandom.pm. DmlRandom.pm makes deep expressions over ordinary tables.
# Here the statements have few values and many forms. Tables and views: rules, views with check
# options, instead-of triggers, MERGE into views, deferrable keys. Statements: assignments of
# several columns, FULL JOIN USING, DEFAULT VALUES, cursors, row locks. Values: composite values,
# whole rows, and functions that read the table that the statement writes. Names need quotes or look
# like aliases. Settings of the session change, too.
#
# A script has one right outcome, whatever the order in which rows are read or written.

package ShapeRandom;

use strict;
use warnings;

# Weights of the statements in scripts.
my %weights = (
	select => 12, lock => 6, insert => 10, upsert => 8, update => 10, assign => 10, delete => 6, merge => 7, cte => 8, view => 10,
	cursor => 5, prepared => 8, transaction => 8, setting => 6, block => 5, whole => 6, stable => 6, system => 4, key => 4, rule => 2, error => 4, explain => 4);
our @features = sort keys %weights;

my @table_names = ('t', 'shard_t1', 'r1', 's1', 'old_t', '"T t"', '"select"', '"order"', '"it\'s"', '"a""b"', '"new"', '"excluded"', '"src"', '"$1"', '"pg%s"', "\"\xc3\xa9\"");
my @column_names = ('k', 'k_1', 'id', 't', 'c1', 'r1', 'shard_t1', 'v', 'w', 'n', 'x', 'a', 'b', 'z', '"Key"', '"user"', '"a.b"', '"a b"', '"from"', '"d""q"', '"o\'q"', '"ctid "', '"0"', '"excluded"', "\"\xc3\xa9\"");
my %columns = (T => [qw(k v w n c a z)], U => [qw(k p v w)], O => [qw(w v k)], R => [qw(v w)], L => [qw(k v w)]);

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }

sub new
{
	my ($class, %opt) = @_;
	my %on = map { $_ => 1 } @{ $opt{features} // \@features };
	my $self = bless { %opt, kinds => [ map { ($_) x $weights{$_} } grep { $on{$_} } sort keys %weights ], state => 'none', marks => [], queue => [], nextid => 1000, nprepared => 0, rules => [] }, $class;
	my @names = @table_names;
	my %at;

	srand $self->{seed};
	for my $table (qw(T U O R L))
	{
		my @left = chance(0.3) ? map { "c$_" } 1 .. 9 : @column_names;

		$at{$table} = splice @names, int rand @names, 1;
		$at{ lc($table) . $_ } = splice @left, int rand @left, 1 for @{ $columns{$table} };
	}
	# USING needs a name that both have
	if (chance(0.7) && !grep { $at{"u$_"} eq $at{tk} } qw(p v w)) { $at{uk} = $at{tk}; }
	$self->{at} = \%at;
	$self->{shards} = pick(1, 2, 4, 16);
	$self->{other_shards} = pick(1, 3);
	$self->{deferrable} = chance(0.2);
	$self->{generated} = chance(0.3);
	$self->{check} = pick('', 'WITH CHECK OPTION', 'WITH LOCAL CHECK OPTION');
	$self->{barrier} = chance(0.3);
	$self->{has_rules} = chance(0.25);
	$self->{null_rows} = chance(0.5);
	return $self;
}

sub described
{
	my ($self) = @_;
	return join '; ', (map { "$_ $self->{$_}" } qw(shards other_shards deferrable generated check barrier)), (map { "$_ = $self->{at}{$_}" } sort keys %{ $self->{at} }), $self->{has_rules} ? map { $self->filled($_) } $self->rules : ();
}

# Names in a text: {T} is a table, {tk} its column k; {K} and {V} are values, {ID} a new key, {W} a word.
sub filled
{
	my ($self, $sql) = @_;
	1 while $sql =~ s/\{([TUORL][a-z]?|[tuorl][a-z])\}/$self->{at}{$1} \/\/ die "no name $1"/e;
	$sql =~ s/\{ID\}/$self->{nextid}++/ge;
	$sql =~ s/\{K\}/1 + int rand 34/ge;
	$sql =~ s/\{V\}/chance(0.06) ? 'NULL' : int rand 9/ge;
	$sql =~ s/\{D\}/1 + int rand 4/ge;
	$sql =~ s/\{W\}/pick("'a'", "'B'", "'it''s'", "'%s'", "''", "'w3'", "E'x\\\\ny'", "'w5'")/ge;
	return $sql;
}

# SQL that makes the tables in the first schema of search_path.
sub setup
{
	my ($self, $sharded) = @_;
	my $key = $self->{deferrable} ? 'UNIQUE ({tk}) DEFERRABLE' . (($self->{seed} % 2) ? ' INITIALLY DEFERRED' : '') : 'PRIMARY KEY ({tk})';
	my $generated = $self->{generated} ? ', gen int GENERATED ALWAYS AS ({tv} * 2) STORED' : '';
	my $barrier = $self->{barrier} ? 'WITH (security_barrier)' : '';
	my ($shard, $sharding) = ('SELECT shardfdw.shard_table($x${T}$x$, ' . key_name($self->{at}{tk}) . ", shards => $self->{shards})", '');

	$sharding = "$shard; " . 'SELECT shardfdw.shard_table($x${U}$x$, ' . key_name($self->{at}{uk}) . ', colocate_with => $x${T}$x$);
		SELECT shardfdw.shard_table($x${O}$x$, ' . key_name($self->{at}{ow}) . ", shards => $self->{other_shards});\n" . 'SELECT shardfdw.create_reference_table($x${R}$x$);' if $sharded;
	my $sql = <<"END";
		CREATE TYPE comp AS (x int, y text);
		CREATE DOMAIN small AS int CHECK (VALUE < 1000);
		CREATE TABLE {T} ({tk} int NOT NULL, {tv} int, {tw} text DEFAULT 'dflt', {tn} numeric(8,2) DEFAULT 1.5, {tc} comp, {ta} int[], {tz} small DEFAULT 3$generated);
		CREATE TABLE {U} ({uk} int, {up} int, {uv} int DEFAULT 7, {uw} varchar(8), PRIMARY KEY ({uk}, {up}));
		CREATE TABLE {O} ({ow} text UNIQUE, {ov} int, {ok} bigint DEFAULT 4);
		CREATE TABLE {R} ({rv} int PRIMARY KEY, {rw} text);
		CREATE TABLE {L} ({lk} int, {lv} int, {lw} text);
		INSERT INTO {T} SELECT g, CASE WHEN g % 9 <> 0 THEN g % 7 END, 'w' || g % 6, g / 3.0, ROW(g, 'y' || g % 3)::comp, ARRAY[g, g % 4], g % 5 FROM generate_series(1, 30) AS g;
		INSERT INTO {U} SELECT g, p, g * p % 11, 'u' || p FROM generate_series(1, 30) AS g, generate_series(1, 3) AS p WHERE p <= g % 4;
		INSERT INTO {O} SELECT 'w' || g, g % 5, g FROM generate_series(1, 20) AS g;
		INSERT INTO {R} SELECT g, 'r' || g FROM generate_series(0, 8) AS g;
		INSERT INTO {L} SELECT g % 20, g % 6, 'w' || g % 8 FROM generate_series(1, 25) AS g;
		ALTER TABLE {T} ADD $key;
		$sharding
		CREATE VIEW v1 $barrier AS SELECT {tk} AS "Vk", {tv} AS vv, {tw} AS vw FROM {T} WHERE {tv} < 6 $self->{check};
		CREATE VIEW v2 AS SELECT * FROM v1 WHERE "Vk" % 2 = 0 $self->{check};
		CREATE VIEW v3 AS SELECT q.{tk} AS k, q.{tv} AS v, o.{uv} AS u FROM {T} AS q JOIN {U} AS o ON q.{tk} = o.{uk} AND o.{up} = 1;
		CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS \$x\$ BEGIN
			IF TG_OP = 'DELETE' THEN DELETE FROM {T} WHERE {tk} = OLD.k; RETURN OLD; END IF;
			IF TG_OP = 'UPDATE' THEN UPDATE {T} SET {tv} = NEW.v WHERE {tk} = OLD.k; RETURN NEW; END IF;
			INSERT INTO {T} ({tk}, {tv}) VALUES (NEW.k, NEW.v); RETURN NEW; END \$x\$;
		CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE OR DELETE ON v3 FOR EACH ROW EXECUTE FUNCTION instead();
		CREATE FUNCTION rows_of(int) RETURNS bigint LANGUAGE plpgsql STABLE AS \$x\$ BEGIN RETURN (SELECT count(*) FROM {T} WHERE {tv} = \$1); END \$x\$;
		CREATE FUNCTION rows_sql(int) RETURNS bigint LANGUAGE sql STABLE AS \$x\$ SELECT count(*) FROM {T} WHERE {tv} = \$1 \$x\$;
		CREATE FUNCTION v_of(int) RETURNS int LANGUAGE sql STABLE AS \$x\$ SELECT {tv} FROM {T} WHERE {tk} = \$1 \$x\$;
		CREATE FUNCTION one() RETURNS int LANGUAGE plpgsql VOLATILE AS \$x\$ BEGIN RETURN 1; END \$x\$;
END
	$sql .= join ";\n", $self->rules if $self->{has_rules};
	return $self->filled($sql);
}

# A name as an argument of shard_table(), without quotes.
sub key_name
{
	my ($name) = @_;
	$name =~ s/""/"/g if $name =~ s/^"(.*)"$/$1/s;
	return '$y$' . $name . '$y$';
}

# Some rules, chosen by the seed: both runs have the same.
sub rules
{
	my ($self) = @_;
	my @all = (
		'CREATE RULE i1 AS ON INSERT TO {T} WHERE new.{tv} = 3 DO INSTEAD INSERT INTO {L} VALUES (new.{tk}, new.{tv}, \'rule\')',
		'CREATE RULE i2 AS ON INSERT TO {T} WHERE new.{tv} = 4 DO INSTEAD NOTHING', "CREATE RULE i3 AS ON INSERT TO {T} DO ALSO INSERT INTO {L} VALUES (new.{tk}, 1, 'also')",
		"CREATE RULE u1 AS ON UPDATE TO {T} WHERE old.{tv} = 2 DO INSTEAD UPDATE {U} SET {uv} = 50 WHERE {uk} = old.{tk}", "CREATE RULE u2 AS ON UPDATE TO {T} DO ALSO INSERT INTO {L} VALUES (old.{tk}, new.{tv}, 'upd')",
		'CREATE RULE d1 AS ON DELETE TO {T} WHERE old.{tv} = 1 DO INSTEAD NOTHING', "CREATE RULE d2 AS ON DELETE TO {T} DO ALSO INSERT INTO {L} VALUES (old.{tk}, old.{tv}, 'del')");
	return @all[ grep { ($self->{seed} >> $_) & 1 } 0 .. $#all ];
}

# A query that returns (table, row) for all rows that must be equal.
sub contents
{
	my ($self) = @_;
	my $at = $self->{at};
	return join ' UNION ALL ', map { my $table = $_; "SELECT '$table', ROW(" . join(', ', map { $at->{ lc($table) . $_ } } @{ $columns{$table} }) . ($table eq 'T' && $self->{generated} ? ', gen' : '') . ")::text FROM $at->{$table}" } qw(T U O R L);
}

# ---- parts ---------------------------------------------------------------------------------------

# An integer, or a condition, over {T} AS q.
sub int_q
{
	return pick('{V}', 'q.{tv}', 'q.{tv} + 1', 'q.{tk} % 5', '(q.{tc}).x', 'q.{ta}[1]', 'coalesce(q.{tv}, {V})', 'one() + q.{tv}', 'length(q.{tw})', 'CASE WHEN q.{tv} > 3 THEN q.{tk} % 6 ELSE {V} END', 'nullif(q.{tv}, {V})', 'q.{tz}', 'abs({V})',
		'(SELECT count(*) FROM {U} AS o WHERE o.{uk} = q.{tk})::int', '(SELECT max(o.{uv}) FROM {U} AS o WHERE o.{uk} = q.{tk})', '(SELECT o.{rv} FROM {R} AS o WHERE o.{rv} = q.{tv})', '(SELECT min({lv}) FROM {L} WHERE {lk} = q.{tk})', '(SELECT count(*) FROM {O} AS o WHERE o.{ow} = q.{tw})::int');
}

sub cond_q
{
	return pick('q.{tk} = {K}', 'q.{tk} = {K}', 'q.{tk} IN ({K}, {K}, {K})', 'q.{tv} = {V}', 'q.{tv} > {V}', 'q.{tv} IS NULL', 'q.{tk} < {K} AND q.{tw} <> {W}', 'q.{tw} = {W}', 'true', '(q.{tc}).x = {K}', 'q.{tk} = ANY (ARRAY[{K}, {K}])', 'q.{tc} IS NOT NULL',
		'EXISTS (SELECT FROM {U} AS o WHERE o.{uk} = q.{tk} AND o.{uv} > {V})', 'q.{tk} IN (SELECT {lk} FROM {L} WHERE {lv} = {V})', 'q.{tk} NOT IN (SELECT {uk} FROM {U})', 'q.{tw} IN (SELECT {ow} FROM {O} WHERE {ov} < {V})',
		'q.{tv} = (SELECT max({rv}) FROM {R} WHERE {rv} < {V})', 'q.{tk} BETWEEN {K} AND {K}', 'q.{ta} @> ARRAY[{V}]', 'NOT (q.{tv} = {V})', '(q.{tk} = {K} OR q.{tv} = {V})', 'one() = 1 AND q.{tk} > {K}', '(q.{tk}, q.{tv}) > ({K}, {V})', 'q.{tk} = {K} AND one() = 1', 'q.{tn} > {V}',
		'q.{tk} = (SELECT min({tk}) FROM {T} WHERE {tv} = {V})', 'q IS NOT NULL', '(q.{tk}, q.{tw}) IN (({K}, {W}), ({K}, {W}))');
}

sub returning_q { return chance(0.5) ? '' : ' RETURNING ' . join ', ', map { pick('q.{tk}', 'q.{tv} + 1', 'q.{tw}', '(q.{tc}).y', 'upper(q.{tw})', 'q.{tn} * 2', '(SELECT count(*) FROM {R})', 'one()') . " AS r$_" } 1 .. 1 + int rand 3; }

sub ordered { return { sql => $_[0], ordered => 1 }; }

# ---- statements ----------------------------------------------------------------------------------

sub make_select
{
	my $cond = cond_q();
	my $int = int_q();
	return pick(
		"SELECT q.{tk}, $int AS i FROM {T} AS q WHERE $cond", "SELECT $int AS i, count(*), sum(q.{tn}), min(q.{tw}) FROM {T} AS q WHERE $cond GROUP BY 1", 'SELECT * FROM {T} FULL JOIN {U} ON {T}.{tk} = {U}.{uk} WHERE {U}.{up} = 1',
		"SELECT count(*), sum(coalesce(q.{tv}, 0)) FROM {T} AS q FULL JOIN {T} AS e USING ({tk}) WHERE e.{tv} = {V}", 'SELECT q.{tk}, l.m FROM {T} AS q, LATERAL (SELECT max({uv}) AS m FROM {U} WHERE {uk} = q.{tk}) AS l WHERE l.m > {V}',
		'SELECT q.{tk}, l.{uv} FROM {T} AS q LEFT JOIN LATERAL (SELECT * FROM {U} WHERE {uk} = q.{tk} ORDER BY {up} LIMIT 1) AS l ON true WHERE q.{tv} = {V}', "SELECT DISTINCT $int FROM {T} AS q WHERE $cond", 'SELECT {tv}, {tw}, count(*) FROM {T} GROUP BY GROUPING SETS (({tv}), ({tw}), ())',
		ordered("SELECT q.{tk}, row_number() OVER (PARTITION BY q.{tv} ORDER BY q.{tk}) FROM {T} AS q WHERE $cond ORDER BY q.{tk}"), ordered("SELECT q.* FROM {T} AS q WHERE $cond ORDER BY q.{tk} DESC LIMIT {D} OFFSET {D}"), ordered("SELECT DISTINCT ON (q.{tv}) q.{tv}, q.{tk} FROM {T} AS q ORDER BY q.{tv}, q.{tk} LIMIT 4"),
		"SELECT {tk} FROM {T} WHERE {tv} = {V} EXCEPT ALL SELECT {uk} FROM {U} WHERE {uv} > {V}", "SELECT {tk} FROM {T} AS q WHERE $cond UNION SELECT {lk} FROM {L}", "WITH RECURSIVE r AS (SELECT {tk} AS i FROM {T} WHERE {tk} = {K} UNION SELECT r.i + 7 FROM r JOIN {T} ON {tk} = r.i WHERE r.i < 30) SELECT * FROM r",
		'SELECT (q).* FROM (SELECT o AS q FROM {U} AS o WHERE {uk} < {K}) AS s', "SELECT array_agg(q.{tk} ORDER BY q.{tk}) FILTER (WHERE q.{tv} > 2), string_agg(q.{tw}, ',' ORDER BY q.{tk}) FROM {T} AS q WHERE $cond", 'SELECT q.{tk} FROM {T} AS q NATURAL JOIN {T} AS e WHERE q.{tv} = {V}',
		"SELECT count(*) FROM {T} AS q JOIN {O} AS o ON o.{ow} = q.{tw} JOIN {R} ON {rv} = o.{ov} WHERE $cond", "SELECT q.{tk}, e.{tk} FROM {T} AS q JOIN {T} AS e ON e.{tk} = q.{tv} + 1 WHERE $cond", "TABLE {R}", "SELECT count(*) FROM v1 FULL JOIN {U} ON \"Vk\" = {uk}",
		"SELECT * FROM v3 WHERE k = {K}", "SELECT q.{tk}, (SELECT array_agg(o.{up} ORDER BY o.{up}) FROM {U} AS o WHERE o.{uk} = q.{tk} AND o.{uv} > (SELECT min({rv}) FROM {R} WHERE {rv} > q.{tv})) FROM {T} AS q WHERE $cond", "SELECT 1 FROM {T} AS q WHERE $cond", "SELECT FROM {T} AS q WHERE $cond");
}

sub make_lock
{
	my $cond = cond_q();
	my $lock = 'FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE');
	my $how = pick('', '', ' SKIP LOCKED', ' NOWAIT');
	return pick(ordered("SELECT q.{tk}, q.{tw} FROM {T} AS q WHERE $cond ORDER BY q.{tk} LIMIT {D} $lock$how"), "SELECT q.{tk} FROM {T} AS q WHERE $cond $lock$how", "SELECT q.{tk}, o.{uv} FROM {T} AS q JOIN {U} AS o ON q.{tk} = o.{uk} WHERE $cond $lock OF q$how",
		"SELECT q.{tk}, o.{uv} FROM {T} AS q JOIN {U} AS o ON q.{tk} = o.{uk} WHERE $cond $lock OF q, o$how", "SELECT q.{tk} FROM {T} AS q LEFT JOIN {L} AS o ON o.{lk} = q.{tk} WHERE $cond $lock OF q", "SELECT * FROM v1 WHERE \"Vk\" = {K} $lock$how", "SELECT * FROM (SELECT {tk} FROM {T} AS q WHERE $cond $lock) AS s",
		"WITH c AS (SELECT q.{tk} FROM {T} AS q WHERE $cond ORDER BY q.{tk} LIMIT {D} $lock$how) UPDATE {T} AS e SET {tn} = 9 FROM c WHERE c.{tk} = e.{tk} RETURNING e.{tk}", "UPDATE {T} SET {tn} = 8 WHERE {tk} = (SELECT q.{tk} FROM {T} AS q WHERE $cond ORDER BY q.{tk} LIMIT 1 FOR UPDATE$how) RETURNING {tk}",
		"DELETE FROM {U} WHERE ({uk}, {up}) IN (SELECT {uk}, {up} FROM {U} WHERE {uk} < {K} ORDER BY {uk}, {up} LIMIT {D} FOR UPDATE$how) RETURNING {uk}, {up}");
}

sub make_insert
{
	my $r = returning_q();
	return pick(
		"INSERT INTO {T} AS q ({tk}, {tv}, {tc}) VALUES ({ID}, {V}, ROW({V}, {W}))$r", "INSERT INTO {T} AS q VALUES ({ID}, {V}, DEFAULT), ({ID}, {V}, {W})$r", "INSERT INTO {T} AS q ({tk}, {tv}, {ta}[1], {ta}[2]) VALUES ({ID}, {V}, {V}, {V})$r",
		"INSERT INTO {T} AS q ({tk}, {tc}.x, {tc}.y) VALUES ({ID}, {V}, {W})$r", 'INSERT INTO {T} DEFAULT VALUES', 'INSERT INTO {L} DEFAULT VALUES', 'INSERT INTO {O} DEFAULT VALUES', 'INSERT INTO {O} VALUES (DEFAULT, DEFAULT) RETURNING *', 'INSERT INTO {O} VALUES (DEFAULT, {V}, DEFAULT), (DEFAULT, DEFAULT, DEFAULT)', 'INSERT INTO {L} VALUES (DEFAULT, DEFAULT, DEFAULT)', 'INSERT INTO {U} ({uk}, {up}, {uv}, {uw}) VALUES ({K}, {ID}, DEFAULT, DEFAULT) RETURNING {uv}', 'INSERT INTO {O} VALUES ({W} || {ID}, DEFAULT, DEFAULT) RETURNING *',
		"INSERT INTO {T} AS q ({tk}, {tv}, {tw}) SELECT {uk} + {ID}, {uv}, {uw} FROM {U} WHERE {up} = 1 AND {uk} < {K}$r", 'INSERT INTO {U} ({uk}, {up}, {uv}) SELECT {tk}, {ID}, {tv} FROM {T} WHERE {tv} = {V} RETURNING {uk}, {uv}', "INSERT INTO {T} AS q ({tk}, {tv}) SELECT {lk} + {ID} + 100 * {lv} * row_number() OVER (ORDER BY {lk}, {lv}, {lw}), {lv} FROM {L} WHERE {lv} = {V}$r",
		"INSERT INTO {T} AS q ({tk}, {tv}) (SELECT {ID}, {V} UNION ALL SELECT {ID}, {V})$r", 'INSERT INTO {O} SELECT {tw} || {tk} || {W} || {ID}, {tv}, {tk} FROM {T} WHERE {tk} < {K} RETURNING {ov}', "INSERT INTO {T} AS q ({tk}, {tw}) VALUES ({ID}, (SELECT min({uw}) FROM {U} WHERE {uk} = {K})), ({ID}, {W})$r", 'INSERT INTO {L} SELECT {tk}, {tv}, {tw} FROM {T} WHERE {tk} = {K}',
		"INSERT INTO {T} AS q ({tk}, {tv}, {tz}) VALUES ({ID}, {V}, {V}) RETURNING q", 'INSERT INTO {T} ({tk}, {tw}) OVERRIDING USER VALUE VALUES ({ID}, {W}) RETURNING {tk}', "INSERT INTO {R} VALUES ({ID}, {W})", "INSERT INTO {T} AS q ({tk}) SELECT g FROM generate_series({ID}, {ID}) AS g$r");
}

sub make_upsert
{
	my $r = returning_q();
	return pick("INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tv} = excluded.{tv} + 1, {tw} = q.{tw} || 'u'$r", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}), ({ID}, {V}) ON CONFLICT ({tk}) DO NOTHING$r", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT DO NOTHING$r",
		"INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET ({tv}, {tw}) = (excluded.{tv}, {W}) WHERE q.{tv} < {V}$r", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET ({tv}, {tw}) = (SELECT max(o.{uv}), min(o.{uw}) FROM {U} AS o WHERE o.{uk} = excluded.{tk})$r",
		"INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tv} = DEFAULT, {tn} = DEFAULT$r", "INSERT INTO {U} AS o VALUES ({K}, {D}, {V}, 'up') ON CONFLICT ({uk}, {up}) DO UPDATE SET {uv} = o.{uv} + excluded.{uv} RETURNING o.{uv}", "INSERT INTO {U} ({uk}, {up}, {uv}) SELECT {tk}, 1, {tv} FROM {T} WHERE {tv} = {V} ON CONFLICT ({up}, {uk}) DO UPDATE SET {uv} = excluded.{uv} RETURNING {uk}, {uv}",
		"INSERT INTO {R} VALUES ({V}, {W}) ON CONFLICT ({rv}) DO UPDATE SET {rw} = excluded.{rw} RETURNING *", "INSERT INTO {O} VALUES ({W}, {V}, {K}) ON CONFLICT ({ow}) DO UPDATE SET {ov} = excluded.{ov} WHERE excluded.{ov} IS NOT NULL RETURNING {ow}, {ov}", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}), ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tv} = excluded.{tv}$r",
		"INSERT INTO {T} AS q ({tk}, {tc}.x) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tc}.x = (q.{tc}).x + 1, {ta}[2] = 77$r", "INSERT INTO {T} AS q ({tk}, {tw}) SELECT {lk}, max({lw}) FROM {L} GROUP BY {lk} ON CONFLICT ({tk}) DO UPDATE SET {tw} = excluded.{tw} RETURNING q.{tk}", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tv} = excluded.{tv} RETURNING q.{tk}, (xmax = 0) AS inserted");
}

sub make_update
{
	my ($cond, $int, $r) = (cond_q(), int_q(), returning_q());
	return pick("UPDATE {T} AS q SET {tv} = $int WHERE $cond$r", "UPDATE {T} AS q SET {tv} = $int, {tw} = {W}, {tn} = DEFAULT WHERE $cond$r", "UPDATE {T} AS q SET {tv} = o.{uv} FROM {U} AS o WHERE o.{uk} = q.{tk} AND o.{up} = 1 AND $cond$r", "UPDATE {T} AS q SET {tw} = o.{rw} FROM {R} AS o WHERE o.{rv} = q.{tv}$r",
		"UPDATE {T} AS q SET {tv} = o.{ov} FROM {O} AS o WHERE o.{ow} = q.{tw} AND $cond$r", "UPDATE {T} AS q SET {tv} = x.v FROM (VALUES ({K}, {V}), (33, {V})) AS x(k, v) WHERE q.{tk} = x.k$r", "UPDATE {U} AS o SET {uv} = q.{tv} FROM {T} AS q WHERE o.{uk} = q.{tk} AND $cond RETURNING o.{uk}, o.{up}, o.{uv}", "UPDATE {T} AS q SET {tc}.x = {V}, {tc}.y = {W}, {ta}[2] = {V} WHERE $cond$r",
		"UPDATE {T} AS q SET {tc} = ROW($int, 'z') WHERE $cond$r", "UPDATE {L} SET {lv} = (SELECT count(*) FROM {T} WHERE {tk} = {lk})", "UPDATE {U} SET {uv} = e.{tv} FROM {T} FULL JOIN {T} AS e USING ({tk}) WHERE e.{tk} = {U}.{uk} AND {U}.{up} = 1", "UPDATE {O} SET {ov} = (SELECT max({tv}) FROM {T} WHERE {tw} = {ow}) WHERE {ov} = {V} RETURNING *", "UPDATE {T} AS q SET {tz} = q.{tz} + 1 WHERE $cond$r",
		"UPDATE {R} SET {rw} = {rw} || 'r' WHERE {rv} = {V} RETURNING *", "UPDATE {T} AS q SET {tv} = {V} WHERE $cond AND $cond$r", "UPDATE {U} SET {uw} = {uw} || 'x' WHERE {uk} = {K}");
}

# Several columns by one row.
sub make_assign
{
	my ($cond, $int, $r) = (cond_q(), int_q(), returning_q());
	return pick("UPDATE {T} AS q SET ({tv}, {tw}) = ($int, {W}) WHERE $cond$r", "UPDATE {T} AS q SET ({tv}) = (SELECT count(*) FROM {U} AS o WHERE o.{uk} = q.{tk}) WHERE $cond$r", "UPDATE {T} AS q SET ({tn}) = (SELECT max(o.{uv}) FROM {U} AS o WHERE o.{uk} = q.{tk})$r", "UPDATE {T} AS q SET ({tv}, {tw}) = (SELECT o.{rv}, o.{rw} FROM {R} AS o WHERE o.{rv} = q.{tv}) WHERE $cond$r",
		"UPDATE {T} AS q SET ({tv}, {tn}) = ROW({V}, {V}) WHERE $cond$r", "UPDATE {T} AS q SET ({tv}, {tn}) = (DEFAULT, {V}) WHERE $cond$r", "UPDATE {T} AS q SET ({tn}) = (SELECT sum({lv}) FROM {L} WHERE {lk} = q.{tk}) WHERE $cond$r", "UPDATE {T} AS q SET ({tw}, {tz}) = (SELECT max(o.{uw}), min(o.{uv}) FROM {U} AS o WHERE o.{uk} = q.{tk}), {tv} = 5 WHERE $cond$r",
		"WITH c AS (UPDATE {T} AS q SET ({tn}) = (SELECT count(*) FROM {U} AS o WHERE o.{uk} = q.{tk}) WHERE $cond RETURNING q.{tk}, q.{tn}) SELECT * FROM c", "UPDATE v1 SET (vv, vw) = (SELECT count(*) % 3, max({uw}) FROM {U} WHERE {uk} = \"Vk\") WHERE \"Vk\" < {K} RETURNING *", "UPDATE {T} AS q SET ({tc}.x, {tc}.y) = (SELECT {V}, {W}) WHERE $cond$r",
		"UPDATE {T} AS q SET ({tv}, {tw}) = (SELECT o.{ov}, o.{ow} FROM {O} AS o WHERE o.{ow} = q.{tw}), ({tn}, {tz}) = (SELECT 4, 5) WHERE $cond$r", "UPDATE {O} SET ({ov}, {ok}) = (SELECT count(*), max({tk}) FROM {T} WHERE {tw} = {ow}) RETURNING *", "UPDATE {U} SET ({uv}, {uw}) = (SELECT {tv}, 'a' FROM {T} WHERE {tk} = {uk}) WHERE {uk} = {K} RETURNING {uv}, {uw}");
}

sub make_delete
{
	my ($cond, $r) = (cond_q(), returning_q());
	return pick("DELETE FROM {T} AS q WHERE q.{tk} > 25 AND $cond$r", "DELETE FROM {U} AS o USING {T} AS q WHERE o.{uk} = q.{tk} AND $cond AND o.{up} = {D} RETURNING o.{uk}", "DELETE FROM {T} AS q USING {O} AS o WHERE o.{ow} = q.{tw} AND q.{tk} > 28$r", "DELETE FROM {U} WHERE {uk} = {K} AND {up} = {D} RETURNING *", "DELETE FROM {O} WHERE {ov} IN (SELECT {rv} FROM {R} WHERE {rv} > 6) RETURNING {ow}",
		"DELETE FROM {T} AS q WHERE q.{tk} = (SELECT max({tk}) FROM {T})$r", "DELETE FROM {L} WHERE {lk} IN (SELECT {tk} FROM {T} WHERE {tv} = {V})", "DELETE FROM {T} AS q WHERE q.{tk} IN (SELECT {tk} FROM {T} WHERE {tv} = {V} ORDER BY {tk} LIMIT 2)$r", "DELETE FROM {T} AS q WHERE NOT EXISTS (SELECT FROM {U} AS o WHERE o.{uk} = q.{tk}) AND q.{tk} > 20$r", "DELETE FROM {R} WHERE {rv} = {V} RETURNING *",
		'DELETE FROM {U} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {U} WHERE {uv} > 8 ORDER BY {uk}, {up} LIMIT 3)) RETURNING {uk}, {up}');
}

sub make_merge
{
	my ($self) = @_;
	my $gone = $self->{major} >= 17 ? ' WHEN NOT MATCHED BY SOURCE AND ' . pick('x.{tv} = {V}', 'x.{tk} > 31', 'x.{tv} > (SELECT 7)', 'one() = 2') . ' THEN ' . pick('DELETE', "UPDATE SET {tw} = 'gone'", 'UPDATE SET {tn} = x.{tn} + 1') : '';
	my $returning = $self->{major} >= 17 && chance(0.5) ? ' RETURNING ' . pick('merge_action(), x.{tk}', 'x.{tv}', 'merge_action(), s.k') : '';
	my $source = pick('(VALUES ({K}, {V}), (33, {V}), ({ID}, {V})) AS s(k, v)', '(SELECT {uk} AS k, max({uv}) AS v FROM {U} GROUP BY {uk}) AS s', '(SELECT {rv} AS k, 2 AS v FROM {R}) AS s', '(SELECT DISTINCT {lk} AS k, 3 AS v FROM {L}) AS s', '(SELECT 1 AS k, 1 AS v WHERE false) AS s');
	my $view = $self->{major} >= 17 ? [ 'MERGE INTO v1 AS x USING ' . $source . ' ON x."Vk" = s.k WHEN MATCHED THEN ' . pick('UPDATE SET vv = s.v', 'DELETE', 'UPDATE SET (vv, vw) = (SELECT s.v, \'m\')') . ' WHEN NOT MATCHED THEN INSERT ("Vk", vv) VALUES (s.k, s.v)' . pick('', ' WHEN NOT MATCHED BY SOURCE THEN DELETE', ' WHEN NOT MATCHED BY SOURCE AND x."Vk" > 28 THEN UPDATE SET vw = \'x\''), 'MERGE INTO v2 AS x USING ' . $source . ' ON x."Vk" = s.k WHEN MATCHED THEN UPDATE SET vw = \'v2\'' . pick('', ' WHEN NOT MATCHED BY SOURCE AND x.vv = {V} THEN DELETE') ] : [];
	return pick("MERGE INTO {T} AS x USING $source ON x.{tk} = s.k WHEN MATCHED AND s.v > {V} THEN " . pick('UPDATE SET {tv} = s.v', 'DELETE', 'DO NOTHING', 'UPDATE SET {tv} = DEFAULT, {tw} = {W}') . ' WHEN MATCHED THEN UPDATE SET {tw} = {W} || s.k WHEN NOT MATCHED ' . pick('', 'AND s.v < {V} ') . "THEN INSERT ({tk}, {tv}) VALUES (s.k, s.v)$gone$returning",
		"MERGE INTO {T} AS x USING $source ON x.{tk} = s.k AND x.{tv} = {V} WHEN MATCHED THEN DELETE", "MERGE INTO {U} AS x USING {T} AS s ON x.{uk} = s.{tk} AND x.{up} = 1 WHEN MATCHED THEN UPDATE SET {uv} = s.{tv} WHEN NOT MATCHED THEN INSERT VALUES (s.{tk}, 1, DEFAULT, 'm')", "MERGE INTO {L} AS x USING (SELECT DISTINCT {tv} AS v FROM {T}) AS s ON x.{lv} = s.v WHEN MATCHED THEN UPDATE SET {lw} = 'm'", @$view);
}

sub make_cte
{
	my ($cond, $int) = (cond_q(), int_q());
	return pick("WITH d AS (DELETE FROM {U} AS o WHERE o.{uk} = {K} RETURNING *) SELECT count(*), max({uv}) FROM d", "WITH d AS (DELETE FROM {U} WHERE {uk} = {K} RETURNING {uk}, {up}, {uv}) INSERT INTO {U} SELECT {uk}, {up} + 100, {uv}, 'mv' FROM d RETURNING {up}", "WITH u AS (UPDATE {T} AS q SET {tv} = $int WHERE $cond RETURNING q.{tk}, q.{tv}) SELECT u.*, o.{uv} FROM u LEFT JOIN {U} AS o ON o.{uk} = u.{tk} AND o.{up} = 1",
		"WITH i AS (INSERT INTO {T} ({tk}, {tv}) VALUES ({ID}, {V}) RETURNING {tk}) SELECT (SELECT count(*) FROM {T}), count(*) FROM i", "WITH a AS MATERIALIZED (SELECT q.{tk}, q.{tv} FROM {T} AS q WHERE $cond) UPDATE {U} AS o SET {uv} = a.{tv} FROM a WHERE a.{tk} = o.{uk} AND o.{up} = 2 RETURNING o.{uk}, o.{uv}", "WITH i AS (INSERT INTO {L} SELECT {tk}, {tv}, {tw} FROM {T} WHERE {tk} = {K} RETURNING *) SELECT * FROM i",
		"WITH u AS (UPDATE {T} SET {tn} = 2 WHERE {tk} = {K} RETURNING 1), d AS (DELETE FROM {U} WHERE {uk} = {K} AND {up} = 3 RETURNING 1) SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM d), (SELECT sum({tn}) FROM {T})", "WITH s AS (SELECT count(*) AS n FROM {T} AS q WHERE $cond) INSERT INTO {T} ({tk}, {tv}) SELECT {ID}, n FROM s RETURNING {tv}",
		"WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3) INSERT INTO {U} ({uk}, {up}) SELECT {K}, i + {ID} FROM r RETURNING {uk}", "WITH d AS (DELETE FROM {T} AS q WHERE q.{tk} > 29 RETURNING q) SELECT d.q IS NULL, (d.q).{tk} FROM d", "WITH c AS (SELECT q.* FROM {T} AS q WHERE $cond) SELECT count(*), (SELECT max({tv}) FROM c) FROM c AS x JOIN c AS y ON x.{tk} = y.{tk}");
}

sub make_view
{
	my ($self) = @_;
	return pick('INSERT INTO v1 VALUES ({ID}, {V}, {W}) RETURNING *', 'INSERT INTO v1 ("Vk", vv) VALUES ({ID}, {V}), ({ID}, {V})', 'INSERT INTO v2 ("Vk", vv) VALUES ({ID}, {V}) RETURNING "Vk" % 2', 'UPDATE v1 SET vv = vv + 1 WHERE "Vk" = {K} RETURNING *', 'UPDATE v1 SET vv = {V} WHERE "Vk" < {K}', "UPDATE v2 SET vv = vv + 2, vw = vw || 'v' RETURNING \"Vk\", vw", 'DELETE FROM v1 WHERE "Vk" = {K} AND vv = {V} RETURNING vw',
		'DELETE FROM v2 WHERE "Vk" > 27', 'INSERT INTO v1 ("Vk", vv) VALUES ({K}, {V}) ON CONFLICT ("Vk") DO UPDATE SET vv = excluded.vv RETURNING vv', 'INSERT INTO v1 ("Vk", vv) VALUES ({K}, {V}) ON CONFLICT ("Vk") DO NOTHING', 'INSERT INTO v1 ("Vk", vv) SELECT {uk} + {ID}, {uv} FROM {U} WHERE {uk} = {K} AND {up} = 1 RETURNING *', 'UPDATE v1 SET vw = {rw} FROM {R} WHERE {rv} = vv RETURNING "Vk"',
		'UPDATE v1 SET vv = {uv} % 5 FROM {U} WHERE {uk} = "Vk" AND {up} = 1 RETURNING "Vk", vv', 'INSERT INTO v3 (k, v) VALUES ({ID}, {V})', 'UPDATE v3 SET v = {V} WHERE k = {K}', 'DELETE FROM v3 WHERE k = {K} AND u > {V}', 'UPDATE v3 SET v = u WHERE k < {K} RETURNING k, v', 'INSERT INTO v1 DEFAULT VALUES', 'DELETE FROM v1 USING {U} WHERE {uk} = "Vk" AND {up} = 3 AND {uv} > 8 RETURNING "Vk"');
}

sub make_cursor
{
	my ($self) = @_;
	my $cond = cond_q();
	my $name = pick('c', '"C c"', '"select"');
	my $hold = $self->{state} eq 'none' ? pick(' WITH HOLD', ' WITH HOLD', '') : pick('', '', ' WITHOUT HOLD', ' WITH HOLD');
	my $scroll = pick('', ' SCROLL', ' NO SCROLL');
	my @body = map { ordered($_) } map { pick("FETCH {D} FROM $name", "FETCH FROM $name", "MOVE {D} IN $name", "FETCH FORWARD ALL FROM $name", $scroll eq ' SCROLL' ? ("FETCH BACKWARD {D} FROM $name", "FETCH ABSOLUTE {D} FROM $name", "FETCH RELATIVE -1 FROM $name", "FETCH LAST FROM $name", "MOVE BACKWARD ALL IN $name", "FETCH PRIOR FROM $name", "FETCH FIRST FROM $name") : ()) } 1 .. 1 + int rand 5;
	splice @body, int(rand @body), 0, pick('UPDATE {T} SET {tn} = 6 WHERE {tk} < {K}', 'INSERT INTO {T} ({tk}, {tv}) VALUES ({ID}, 1)', 'DELETE FROM {T} WHERE {tk} = {K}', 'SAVEPOINT cur') if chance(0.5);
	my $commit = $self->{state} eq 'none' && ($hold ne ' WITH HOLD' || chance(0.3));
	if ($commit && $hold eq ' WITH HOLD') { splice @body, int(rand @body), 0, pick('COMMIT', 'COMMIT', 'ROLLBACK'); }
	push @{ $self->{queue} }, "DECLARE $name$scroll CURSOR$hold FOR SELECT q.{tk}, " . pick('q.{tv}', 'q.{tw}', int_q()) . " FROM {T} AS q WHERE $cond ORDER BY q.{tk}" . pick('', '', ' DESC'), @body, $hold eq ' WITH HOLD' ? "CLOSE $name" : (), $commit ? pick('COMMIT', 'ROLLBACK') : ();
	return $commit ? 'BEGIN' : shift @{ $self->{queue} };
}

sub make_prepared
{
	my ($self) = @_;
	my $name = 'p' . ++$self->{nprepared};
	my $made = pick(grep { !ref } map { my $m = "make_$_"; $self->$m } qw(select update assign insert upsert delete cte lock view merge));
	return 'SELECT 1' unless defined $made;
	my $types = 'int, int, text';
	$made =~ s/\{K\}/\$1/g;
	$made =~ s/\{V\}/\$2/g;
	$made =~ s/\{W\}/\$3/g;
	push @{ $self->{queue} }, (map { "EXECUTE $name ({K}, {V}, {W})" } 1 .. pick(1, 2, 3, 7)), "DEALLOCATE $name";
	# a new key for each execution would be the same one
	$made =~ s/\{ID\}/(\$1 + 1000 * coalesce(\$2, 9) + 20000)/g;
	return "PREPARE $name ($types) AS $made";
}

sub make_transaction
{
	my ($self) = @_;
	return pick('BEGIN', 'BEGIN', 'START TRANSACTION ISOLATION LEVEL REPEATABLE READ', 'BEGIN READ WRITE') if $self->{state} eq 'none';
	my @names = map { $_ } @{ $self->{marks} };
	return pick('COMMIT', 'COMMIT', 'ROLLBACK', 'SAVEPOINT a', 'SAVEPOINT "b b"', (map { ("ROLLBACK TO $_", "RELEASE $_") } @names ? $names[-1] : ()), 'SET CONSTRAINTS ALL DEFERRED', 'SET CONSTRAINTS ALL IMMEDIATE');
}

sub make_setting
{
	my ($self) = @_;
	return pick((map { 'SET plan_cache_mode = ' . $_ } qw(auto force_generic_plan force_custom_plan)), (map { "SET enable_$_ = " . pick('on', 'off') } qw(hashjoin mergejoin nestloop sort indexscan seqscan hashagg material)), "SET DateStyle = 'German'", "SET TimeZone = 'America/New_York'", "SET IntervalStyle = 'iso_8601'", 'SET extra_float_digits = -3',
		'SET array_nulls = ' . pick('on', 'off'), 'SET quote_all_identifiers = ' . pick('on', 'off'), 'SET transform_null_equals = ' . pick('on', 'off'), $self->{major} < 19 ? 'SET standard_conforming_strings = ' . pick('on', 'off') : (), "SET bytea_output = 'escape'", 'SET join_collapse_limit = ' . pick(1, 8), 'SET constraint_exclusion = ' . pick('on', 'off', 'partition'),
		q{SELECT set_config('search_path', 'pg_catalog, ' || s || ', public', false) IS NULL FROM unnest(current_schemas(false)) AS s WHERE s IN ('p', 's')}, q{SELECT set_config('search_path', s || ', public', false) IS NULL FROM unnest(current_schemas(false)) AS s WHERE s IN ('p', 's')}, 'SET synchronous_commit = ' . pick('on', 'off'), 'SET check_function_bodies = off', 'SET backslash_quote = ' . pick('on', 'safe_encoding'), 'DISCARD PLANS', 'SET client_encoding = ' . pick('UTF8', 'UTF8', 'SQL_ASCII'));
}

# Procedural blocks: variables as parameters, savepoints that fail, loops over rows.
sub make_block
{
	my $cond = cond_q();
	my $body = pick("INSERT INTO {T} ({tk}, {tv}) VALUES ({K}, {V}); EXCEPTION WHEN unique_violation THEN UPDATE {T} SET {tv} = 60 WHERE {tk} = {K};", "PERFORM 1 / ({V} - {V}); EXCEPTION WHEN division_by_zero THEN DELETE FROM {U} WHERE {uk} = {K};", "FOR r IN SELECT q.{tk} AS k FROM {T} AS q WHERE $cond ORDER BY q.{tk} LIMIT 3 LOOP UPDATE {T} SET {tn} = coalesce({tn}, 0) + 1 WHERE {tk} = r.k; END LOOP;",
		"UPDATE {T} AS q SET {tv} = i WHERE $cond; GET DIAGNOSTICS i = ROW_COUNT; INSERT INTO {L} VALUES (i, -1, 'rows');", "FOR r IN UPDATE {T} AS q SET {tv} = 1 WHERE $cond RETURNING q.{tk} AS k LOOP INSERT INTO {L} VALUES (r.k, -2, 'loop'); END LOOP;", "DELETE FROM {T} WHERE {tk} = i RETURNING {tv} INTO i; INSERT INTO {L} VALUES (i, -3, CASE WHEN FOUND THEN 'found' END);",
		"EXECUTE \$x\$UPDATE {U} SET {uv} = \$1 WHERE {uk} = \$2\$x\$ USING i, {K};", "SELECT q.{tv} INTO STRICT i FROM {T} AS q WHERE q.{tk} = {K}; UPDATE {T} SET {tw} = 'strict' || i WHERE {tk} = {K}; EXCEPTION WHEN no_data_found THEN INSERT INTO {L} VALUES (-4);", "BEGIN UPDATE {T} AS q SET {tv} = 70 WHERE $cond; RAISE 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END; UPDATE {T} SET {tv} = 71 WHERE {tk} = {K};");
	return "DO \$do\$ DECLARE i int := {V}; r record; BEGIN $body END \$do\$";
}

sub make_whole
{
	my ($cond, $r) = (cond_q(), returning_q());
	return pick("SELECT q FROM {T} AS q WHERE $cond", "SELECT q::text FROM {T} AS q WHERE $cond", "SELECT to_jsonb(q) FROM {T} AS q WHERE $cond", "SELECT row_to_json(o) FROM {U} AS o WHERE o.{uk} = {K}", "SELECT count(q) FROM {T} AS q LEFT JOIN {U} AS o ON o.{uk} = q.{tk} WHERE o IS NULL", "SELECT o IS DISTINCT FROM NULL FROM {T} AS q LEFT JOIN {U} AS o ON o.{uk} = q.{tk} AND o.{up} = 2 WHERE $cond",
		"UPDATE {T} AS q SET {tw} = left(q::text, 20) WHERE $cond RETURNING q.{tk}", "DELETE FROM {U} AS o WHERE o = ROW({K}, {D}, {V}, 'u1') RETURNING o", "SELECT ROW(q.*, 1) FROM {T} AS q WHERE q.{tk} = {K}", "SELECT max(q.{tc}) FROM {T} AS q WHERE $cond", "SELECT q.{tc}, count(*) FROM {T} AS q WHERE $cond GROUP BY q.{tc}", "UPDATE {U} AS o SET {uv} = {V} WHERE o.{uk} = {K} RETURNING o, o.*", "SELECT array_agg(o ORDER BY o.{up}) FROM {U} AS o WHERE o.{uk} = {K}",
		"SELECT (q.{tc}).*, q.{ta}[1:1] FROM {T} AS q WHERE $cond", "SELECT DISTINCT o FROM {U} AS o WHERE o.{uk} < {K}", "SELECT hashtext(o::text) FROM {U} AS o WHERE o.{uk} < {K}", "SELECT tableoid::regclass IS NOT NULL, q.{tk} FROM {T} AS q WHERE $cond", "INSERT INTO {U} AS o VALUES ({K}, {ID}) RETURNING o", "SELECT q.{tk} FROM {T} AS q WHERE q.{tc} = ROW({K}, 'y1')::comp", "SELECT q.{tk} FROM {T} AS q WHERE (q.{tc}).y = {W} AND q.{tc} IS NOT NULL");
}

# Functions that read the table that the statement writes see it as it was before the statement.
sub make_stable
{
	my $cond = cond_q();
	my $f = pick('rows_of', 'rows_sql');
	return pick("DELETE FROM {T} AS q WHERE q.{tk} > 20 AND $f(q.{tv}) = {D}", "UPDATE {T} AS q SET {tn} = $f(q.{tv}) WHERE $cond RETURNING q.{tk}, q.{tn}", "UPDATE {T} AS q SET {tv} = v_of(q.{tk} + 1) WHERE $cond", "INSERT INTO {T} ({tk}, {tv}) SELECT g + {ID} * 10, $f(g) FROM generate_series(1, 3) AS g RETURNING {tv}", "SELECT q.{tk}, $f(q.{tv}), v_of(q.{tk}) FROM {T} AS q WHERE $cond",
		"UPDATE {T} AS q SET {tv} = 8 WHERE q.{tk} < {K} RETURNING $f(8), $f(q.{tv})", "DELETE FROM {T} AS q WHERE q.{tk} > 25 RETURNING $f({V})", "WITH d AS (DELETE FROM {T} AS q WHERE q.{tk} = {K} RETURNING q.{tv}) SELECT $f({V}), {tv} FROM d", "INSERT INTO {T} AS q ({tk}, {tv}) VALUES ({K}, {V}) ON CONFLICT ({tk}) DO UPDATE SET {tv} = $f({V}) RETURNING $f(q.{tv})", "UPDATE {T} SET {tv} = 2 WHERE v_of({tk}) = {V} RETURNING v_of({tk})",
		"DELETE FROM {U} WHERE $f({uv}) = {D} AND {uk} < {K}", "UPDATE {U} SET {uv} = $f({up}) WHERE {uk} = {K} RETURNING {uv}");
}

# ctid and xmin in set operations and in a recursive WITH are refused, or as right as in a plain table.
sub make_system
{
	my ($cond, $other) = (cond_q(), cond_q());
	my $from   = 'FROM {T} AS q WHERE';
	my $ctids  = "SELECT q.ctid AS c $from q.{tk} = {K} AND $cond UNION ALL SELECT q.ctid $from $other";
	my $column = pick('q.ctid', 'q.ctid::text', 'row(q.tableoid, q.ctid)::text');
	my $arms   = join ' UNION ALL ', pick((), "SELECT NULL"), "SELECT $column AS c $from q.{tk} = {K}",
		"SELECT $column $from $other";
	my $next = 'SELECT q.ctid, q.{tk} FROM {T} AS q JOIN r ON q.{tk} = r.i + 1 WHERE r.i < 30';
	return pick(
		"SELECT count(DISTINCT c) FROM ($arms) AS s",
		"SELECT count(x.c) FROM (SELECT xmin AS c $from q.{tk} = {K} UNION ALL SELECT xmin $from $other) AS x",
		"DELETE FROM {T} AS e WHERE e.{tk} = {K} AND e.ctid IN ($ctids) RETURNING e.{tk}",
		"UPDATE {T} AS e SET {tn} = 4 WHERE e.{tk} = {K} AND e.ctid = ANY (ARRAY($ctids))",
		"UPDATE {T} AS e SET {tn} = 5 FROM ($ctids) AS d WHERE e.{tk} = {K} AND e.ctid = d.c",
		"WITH RECURSIVE r(c, i) AS (SELECT q.ctid, q.{tk} $from q.{tk} = {K} UNION ALL $next) "
			. 'SELECT count(' . pick('', 'DISTINCT ') . 'c) FROM r');
}

# Plans are not compared. The statement must have run.
sub make_explain
{
	my ($self) = @_;
	my $made = pick(grep { !ref && !/^PREPARE/ } map { my $m = "make_$_"; $self->$m } qw(select update assign insert upsert delete cte lock view merge whole stable));
	return { sql => 'EXPLAIN (VERBOSE, COSTS OFF' . pick('', ', ANALYZE, TIMING OFF', ', ANALYZE, FORMAT json', ', SETTINGS') . ") $made", no_rows => 1 } if defined $made;
	return 'SELECT 3';
}

# Keys that change, collide, or are checked late.
sub make_key
{
	my $r = returning_q();
	return pick("UPDATE {T} AS q SET {tk} = q.{tk} + 1 WHERE q.{tk} > 900$r", "UPDATE {T} AS q SET {tk} = q.{tk} + 100000 WHERE q.{tk} = {K}$r", "UPDATE {U} SET {up} = {up} + 1 WHERE {uk} = {K} AND {up} > 90", "UPDATE {O} SET {ow} = {ow} || 'k' WHERE {ov} = {V} RETURNING {ow}", "UPDATE {T} AS q SET {tk} = {K} WHERE q.{tk} = {K}$r", "UPDATE {U} SET {uk} = {uk} + 200 WHERE {uk} = {K} RETURNING {uk}, {up}", "INSERT INTO {T} ({tk}) VALUES ({K})", "UPDATE {T} AS q SET {tk} = NULL WHERE q.{tk} = {K}");
}

sub make_rule
{
	my ($self) = @_;
	return 'SELECT 1' if $self->{state} ne 'none';
	return pick($self->{has_rules} ? map { 'DROP RULE IF EXISTS ' . $_ . ' ON {T}' } qw(i1 i2 i3 u1 u2 d1 d2) : 'SELECT 2');
}

sub make_error { return pick('INSERT INTO {T} ({tk}, {tz}) VALUES ({ID}, 5000)', 'INSERT INTO {T} VALUES (NULL)', "UPDATE {T} SET {tv} = {tk} / 0 WHERE {tk} = {K}", "UPDATE {T} SET {tn} = 1e9 WHERE {tk} < {K}", "INSERT INTO {U} VALUES ({K}, {ID}, 1, 'much too long')", 'SELECT nothing FROM {T}', "UPDATE {T} SET {tv} = {tw}::int WHERE {tk} = {K}", 'SELECT * FROM {T} WHERE {tk} = (SELECT {uk} FROM {U})', "INSERT INTO {T} ({tk}, {tv}) VALUES ({ID}, 2147483648)", "SELECT 1 / ({tk} - {tk}) FROM {T}"); }

# ---- the script ----------------------------------------------------------------------------------

sub next
{
	my ($self) = @_;
	my $made;

	if ($self->{state} eq 'aborted') { $made = @{ $self->{marks} } && chance(0.5) ? "ROLLBACK TO $self->{marks}[-1]" : pick('ROLLBACK', 'COMMIT'); }
	elsif (@{ $self->{queue} }) { $made = shift @{ $self->{queue} }; }
	elsif ($self->{state} eq 'open' && chance(0.2)) { $made = $self->make_transaction; }
	else
	{
		my $method = 'make_' . pick(@{ $self->{kinds} });
		$made = $self->$method;
	}
	$made = { sql => $made } unless ref $made;
	$made->{sql} = $self->filled($made->{sql});
	$self->{last} = $made;
	return $made;
}

sub done
{
	my ($self, $ok) = @_;
	my $sql = $self->{last}{sql};
	my $marks = $self->{marks};

	if ($sql =~ /^(?:COMMIT|ROLLBACK)$/)
	{
		@$marks = ();
		$self->{state} = 'none';
	}
	elsif (!$ok)
	{
		$self->{state} = 'aborted' if $self->{state} ne 'none';
		@{ $self->{queue} } = () if $sql =~ /^(?:DECLARE|PREPARE)/;
	}
	elsif ($sql =~ /^(?:BEGIN|START)/) { $self->{state} = 'open'; }
	elsif ($sql =~ /^SAVEPOINT (.*)/) { push @$marks, $1 if $self->{state} ne 'none'; }
	elsif ($sql =~ /^(RELEASE|ROLLBACK TO) (.*)/)
	{
		my ($n) = grep { $marks->[$_] eq $2 } reverse 0 .. $#$marks;
		splice @$marks, $1 eq 'RELEASE' ? $n : $n + 1 if defined $n;
		$self->{state} = 'open';
	}
	return;
}

sub state { return $_[0]{state}; }
sub role { return 0; }

1;
