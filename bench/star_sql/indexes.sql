-- Primary keys of all tables, and indexes on what the large one is looked up by.
ALTER TABLE country ADD PRIMARY KEY (country_id);
ALTER TABLE city ADD PRIMARY KEY (city_id);
ALTER TABLE store ADD PRIMARY KEY (store_id);
ALTER TABLE channel ADD PRIMARY KEY (channel_id);
ALTER TABLE promotion ADD PRIMARY KEY (promotion_id);
ALTER TABLE department ADD PRIMARY KEY (department_id);
ALTER TABLE category ADD PRIMARY KEY (category_id);
ALTER TABLE maker ADD PRIMARY KEY (maker_id);
ALTER TABLE brand ADD PRIMARY KEY (brand_id);
ALTER TABLE product ADD PRIMARY KEY (product_id);
ALTER TABLE segment ADD PRIMARY KEY (segment_id);
ALTER TABLE customer ADD PRIMARY KEY (customer_id);
ALTER TABLE clerk ADD PRIMARY KEY (clerk_id);
ALTER TABLE day ADD PRIMARY KEY (day);
ALTER TABLE sale ADD PRIMARY KEY (sale_id);
CREATE INDEX ON sale (sold_on);
CREATE INDEX ON sale (product_id);
CREATE INDEX ON sale (customer_id);
