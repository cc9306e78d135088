-- The nine tables of TPC-C, revision 5.11. Each key but item's begins with a warehouse.
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name text, w_street_1 text, w_street_2 text, w_city text, w_state char(2), w_zip char(9),
	w_tax numeric(4, 4), w_ytd numeric(12, 2)) WITH (fillfactor = 10);
CREATE TABLE district (d_w_id int, d_id int, d_name text, d_street_1 text, d_street_2 text, d_city text, d_state char(2), d_zip char(9),
	d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id)) WITH (fillfactor = 10);
CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first text, c_middle char(2), c_last text, c_street_1 text, c_street_2 text, c_city text,
	c_state char(2), c_zip char(9), c_phone char(16), c_since timestamptz, c_credit char(2), c_credit_lim numeric(12, 2), c_discount numeric(4, 4),
	c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int, c_data text,
	PRIMARY KEY (c_w_id, c_d_id, c_id)) WITH (fillfactor = 50);
CREATE TABLE history (h_w_id int, h_d_id int, h_c_w_id int, h_c_d_id int, h_c_id int, h_date timestamptz, h_amount numeric(6, 2), h_data text);
CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamptz, o_carrier_id int, o_ol_cnt int, o_all_local int,
	PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamptz,
	ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_dist_01 char(24), s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24),
	s_dist_05 char(24), s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24), s_ytd int,
	s_order_cnt int, s_remote_cnt int, s_data text, PRIMARY KEY (s_w_id, s_i_id)) WITH (fillfactor = 50);
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name text, i_price numeric(5, 2), i_data text);
