/*
 * template.c
 *	  Prints the text of a remote query, and splits it into a template.
 *
 * Core's pg_get_querydef() prints the text, so quoting, precedence and syntax are core's. search_path is only
 * pg_catalog, and the settings make literals unambiguous.
 *
 *	  Query -> text -> split at each $n and at the places of tables -> template
 *
 * Splitting skips literals and quoted names.  So text of a user can never be mistaken for a parameter or a table.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/qualified.h"
#include "compat.h"
#include "deparse/print_settings.h"
#include "deparse/printable.h"
#include "deparse/shippable/shippable.h"
#include "deparse/template.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* A part of the text to replace: name in "name alias". */
typedef struct CutPlace
{
	const ShardSelectPlace *place;
	char	   *name;
	char	   *forms[2];		/* some minor versions print AS after the target of UPDATE and DELETE */
	size_t		lens[2];		/* of forms */
	int			nfound;
} CutPlace;

static char *
place_name(const ShardSelectPlace *place)
{
	if (!OidIsValid(place->relid))
		return SHARD_SELECT_UNION_NAME;

	/* search_path is pg_catalog, so users' tables are printed qualified, except temporary tables */
	if (RelationIsVisible(place->relid))
		return pstrdup(quote_identifier(get_rel_name(place->relid)));
	return shard_qualified_relation(place->relid);
}

/*
 * In ORDER BY and DISTINCT ON, an unqualified name is first looked up as an output column, and only then as a table
 * column.  If the range table of the topmost level has a single entry, core prints its columns unqualified.  So this
 * function adds an entry that is not in FROM.
 */
static void
qualify_columns(Query *query)
{
	RangeTblEntry *rte;

	if (query->commandType != CMD_SELECT || (query->sortClause == NIL && !query->hasDistinctOn))
		return;
	rte = makeNode(RangeTblEntry);
	rte->rtekind = RTE_RESULT;
	rte->eref = makeAlias("r0", NIL);
	query->rtable = lappend(query->rtable, rte);
}

/*
 * The query's text under settings with qualified names, and with literals that mean the same in each session.  Fills
 * cuts from places.
 */
static char *
print_query(Query *query, List *places, CutPlace *cuts)
{
	int			nestlevel = shard_print_settings_begin();
	char	   *text;
	const char *obstacle = shard_printable_obstacle(query);
	ListCell   *lc;

	if (obstacle != NULL)
		elog(ERROR, "core does not print all of a remote query: %s", obstacle);
	query = copyObject(query);
	qualify_columns(query);
	text = pg_get_querydef(query, false);
	foreach(lc, places)
	{
		CutPlace   *cut = cuts++;

		cut->place = lfirst(lc);
		cut->name = place_name(cut->place);
		cut->forms[0] = psprintf("%s %s", cut->name, cut->place->alias);
		cut->forms[1] = psprintf("%s AS %s", cut->name, cut->place->alias);
		for (int i = 0; i < lengthof(cut->forms); i++)
			cut->lens[i] = strlen(cut->forms[i]);
		cut->nfound = 0;
	}
	shard_print_settings_end(nestlevel);
	return text;
}

/* End of the literal or quoted name that starts at text.  Quotes inside are doubled. */
static const char *
skip_quoted(const char *text)
{
	char		quote = *text++;

	for (;; text++)
	{
		if (*text == '\0')
			elog(ERROR, "unterminated quote in a remote query");
		if (*text == quote)
		{
			if (text[1] != quote)
				return text + 1;
			text++;
		}
	}
}

/* Appends the text between start and end, if any. */
static List *
append_text(List *template, const char *start, const char *end)
{
	if (end > start)
		template = lappend(template, makeString(pnstrdup(start, end - start)));
	return template;
}

/* Appends the own FROM item of a place if it has one, otherwise its number.  A union gets parentheses. */
static List *
append_place(List *template, const ShardSelectPlace *place)
{
	if (!OidIsValid(place->relid))
	{
		template = lappend(template, makeString(pstrdup("(")));
		template = lappend(template, makeInteger(place->number));
		return lappend(template, makeString(pstrdup(")")));
	}
	if (place->own_from != NULL)
		return lappend(template, makeString(pstrdup(place->own_from)));
	return lappend(template, makeInteger(place->number));
}

/* See SHARD_SELECT_UNSEEN. */
static bool
is_unseen(const Expr *expr)
{
	return IsA(expr, Param) && ((const Param *) expr)->paramkind == PARAM_EXTERN &&
		(((const Param *) expr)->paramid & SHARD_SELECT_UNSEEN) != 0;
}

static List *
append_param(ShardSelect *select, List *template, int paramno)
{
	if (select != NULL && paramno > SHARD_SELECT_RAW_TEXT)
		return lappend(template, list_nth(select->raw_texts, paramno - SHARD_SELECT_RAW_TEXT - 1));
	if (select != NULL && is_unseen(list_nth(select->params, paramno - 1)))
	{
		Param	   *param = list_nth(select->params, paramno - 1);

		template = lappend(template, makeString(pstrdup("(SELECT ")));
		template = lappend(template, makeInteger(paramno));
		return lappend(template, makeString(psprintf("::%s)", shard_type_io_cast_name(param->paramtype))));
	}
	return lappend(template, makeInteger(paramno));
}

/* Replaces white space outside of quotes by single blanks, and removes it at the start. */
static char *
squeeze_blanks(const char *text)
{
	char	   *result = palloc(strlen(text) + 1);
	char	   *to = result;

	while (*text)
	{
		if (*text == '\'' || *text == '"')
		{
			const char *end = skip_quoted(text);

			memcpy(to, text, end - text);
			to += end - text;
			text = end;
		}
		else if (isspace((unsigned char) *text))
		{
			if (to > result && to[-1] != ' ')
				*to++ = ' ';
			text++;
		}
		else
			*to++ = *text++;
	}
	*to = '\0';
	return result;
}

/* Does text start with word, of len bytes, as a complete word? */
static bool
starts_with_word(const char *text, const char *word, size_t len)
{
	/* a parenthesis: column names follow */
	return strncmp(text, word, len) == 0 && strchr(" ),(", text[len]) != NULL;
}

/* The place whose name and alias are at `at`, or NULL. */
static CutPlace *
find_place(const char *text, const char *at, CutPlace *cuts, int ncuts)
{
	if (at == text || (at[-1] != ' ' && at[-1] != '('))
		return NULL;
	for (int i = 0; i < ncuts; i++)
	{
		for (int j = 0; j < lengthof(cuts[i].forms); j++)
			if (starts_with_word(at, cuts[i].forms[j], cuts[i].lens[j]))
				return &cuts[i];
	}
	return NULL;
}

/* Splits printed text into a template. */
static List *
cut_text(ShardSelect *select, const char *text, CutPlace *cuts, int ncuts)
{
	const char *start = text;	/* start of the text that is not in the template yet */
	const char *at = text;
	List	   *template = NIL;

	while (*at)
	{
		CutPlace   *cut = find_place(text, at, cuts, ncuts);

		if (cut != NULL)
		{
			template = append_text(template, start, at);
			template = append_place(template, cut->place);
			cut->nfound++;
			start = at = at + strlen(cut->name);
		}
		else if (*at == '\'' || *at == '"')
			at = skip_quoted(at);
		else if (*at == '$' && isdigit((unsigned char) at[1]))
		{
			char	   *end;
			int			paramno = (int) strtol(at + 1, &end, 10);

			template = append_text(template, start, at);
			template = append_param(select, template, paramno);
			start = at = end;
		}
		else
			at++;
	}
	for (int i = 0; i < ncuts; i++)
	{
		if (cuts[i].nfound != 1 && select == NULL)
			return NIL;
		if (cuts[i].nfound != 1)
			elog(ERROR, "table %s found %d times in remote query \"%s\"",
				 cuts[i].forms[0], cuts[i].nfound, text);
	}
	return append_text(template, start, at);
}

/* Appends the types of parameters that have no cast to a built-in type. */
static List *
append_types(List *template, List *params)
{
	List	   *types = NIL;

	foreach_ptr(Node, part, template)
	{
		Oid			type;

		if (!IsA(part, Integer) || intVal(part) <= 0)
			continue;
		type = exprType(list_nth(params, intVal(part) - 1));
		/* arrays of VALUES have no expression, and a cast in the text */
		if (!OidIsValid(type))
			continue;
		if (type >= FirstGenbkiObjectId || !shard_shippable_value_type(type))
			types = lappend_oid(types, type);
	}
	return types == NIL ? template : lappend(template, makeString(shard_type_io_comment(types)));
}

List *
shard_template_print(ShardSelect *select, Query *query, List *places, List *params)
{
	int			ncuts = list_length(places);
	CutPlace   *cuts = palloc(sizeof(CutPlace) * Max(ncuts, 1));
	char	   *text = print_query(query, places, cuts);

	return append_types(cut_text(select, squeeze_blanks(text), cuts, ncuts), params);
}
