/*
 * shortest_dec.h
 *	  Stands in for PostgreSQL's header of that name, so that t/fuzz needs no PostgreSQL.
 */
#ifndef SHORTEST_DEC_H
#define SHORTEST_DEC_H

extern int	double_to_shortest_decimal_buf(double value, char *out);
extern int	float_to_shortest_decimal_buf(float value, char *out);

#endif
