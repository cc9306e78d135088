-- A snowflake of shops: one large table, and dimensions of 10 to 500,000 rows.
CREATE TABLE country (country_id integer NOT NULL, country_name text NOT NULL, region text NOT NULL);
CREATE TABLE city (city_id integer NOT NULL, city_name text NOT NULL, country_id integer NOT NULL);
CREATE TABLE store (store_id integer NOT NULL, store_name text NOT NULL, city_id integer NOT NULL, kind text NOT NULL, opened date NOT NULL);
CREATE TABLE channel (channel_id integer NOT NULL, channel_name text NOT NULL);
CREATE TABLE promotion (promotion_id integer NOT NULL, promotion_name text NOT NULL, kind text NOT NULL, discount integer NOT NULL);
CREATE TABLE department (department_id integer NOT NULL, department_name text NOT NULL);
CREATE TABLE category (category_id integer NOT NULL, category_name text NOT NULL, department_id integer NOT NULL);
CREATE TABLE maker (maker_id integer NOT NULL, maker_name text NOT NULL, country_id integer NOT NULL);
CREATE TABLE brand (brand_id integer NOT NULL, brand_name text NOT NULL, maker_id integer NOT NULL);
CREATE TABLE product (product_id integer NOT NULL, product_name text NOT NULL, brand_id integer NOT NULL, category_id integer NOT NULL,
	price numeric(10,2) NOT NULL, colour text NOT NULL, weight integer NOT NULL);
CREATE TABLE segment (segment_id integer NOT NULL, segment_name text NOT NULL);
CREATE TABLE customer (customer_id integer NOT NULL, customer_name text NOT NULL, segment_id integer NOT NULL, city_id integer NOT NULL,
	born date NOT NULL, vip boolean NOT NULL);
CREATE TABLE clerk (clerk_id integer NOT NULL, clerk_name text NOT NULL, store_id integer NOT NULL, hired date NOT NULL);
CREATE TABLE day (day date NOT NULL, year integer NOT NULL, quarter integer NOT NULL, month integer NOT NULL, weekday integer NOT NULL,
	holiday boolean NOT NULL);
CREATE TABLE sale (sale_id bigint NOT NULL, sold_on date NOT NULL, store_id integer NOT NULL, clerk_id integer NOT NULL,
	product_id integer NOT NULL, customer_id integer NOT NULL, promotion_id integer NOT NULL, channel_id integer NOT NULL,
	quantity integer NOT NULL, amount numeric(12,2) NOT NULL, cost numeric(12,2) NOT NULL);
