-- The five transactions, as functions of the server that clients connect to. Each condition on a table but item names a warehouse.

CREATE FUNCTION uniform(low int, high int) RETURNS int VOLATILE LANGUAGE sql AS $$SELECT low + floor(random() * (high - low + 1))::int$$;
-- The nonuniform random numbers of clause 2.1.6, with C = 0.
CREATE FUNCTION nonuniform(a int, low int, high int) RETURNS int VOLATILE LANGUAGE sql AS
	$$SELECT low + (uniform(0, a) | uniform(low, high)) % (high - low + 1)$$;
CREATE FUNCTION last_name() RETURNS text VOLATILE LANGUAGE sql AS
	$$SELECT a[n / 100 % 10 + 1] || a[n / 10 % 10 + 1] || a[n % 10 + 1]
		FROM (SELECT '{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[] AS a, nonuniform(255, 0, 999) AS n) x$$;
CREATE FUNCTION other_warehouse(w int, warehouses int) RETURNS int VOLATILE LANGUAGE sql AS
	$$SELECT CASE WHEN warehouses = 1 THEN w ELSE 1 + (w - 1 + uniform(1, warehouses - 1)) % warehouses END$$;

-- Clause 2.4. Returns the order's number, or NULL if an item does not exist: then the client rolls back.
CREATE FUNCTION order_items(w int, warehouses int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	d int := uniform(1, 10);
	c int := nonuniform(1023, 1, 3000);
	n int := uniform(5, 15);
	items int[];
	suppliers int[];
	quantities int[];
	prices numeric[];
	infos text[];
	o int;
	discount numeric;
	tax numeric;
	district_tax numeric;
	info text;
	price numeric;
BEGIN
	items := ARRAY(SELECT nonuniform(8191, 1, 100000) FROM generate_series(1, n) ORDER BY 1);
	suppliers := ARRAY(SELECT CASE WHEN random() < 0.01 THEN other_warehouse(w, warehouses) ELSE w END FROM generate_series(1, n));
	quantities := ARRAY(SELECT uniform(1, 10) FROM generate_series(1, n));
	IF random() < 0.01 THEN
		items[n] := 0;
	END IF;
	SELECT w_tax INTO tax FROM warehouse WHERE w_id = w;
	SELECT c_discount INTO discount FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
	UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d RETURNING d_next_o_id - 1, d_tax INTO o, district_tax;
	INSERT INTO orders VALUES (w, d, o, c, now(), NULL, n, (w = ALL (suppliers))::int);
	INSERT INTO new_order VALUES (w, d, o);
	FOR i IN 1 .. n LOOP
		SELECT i_price INTO price FROM item WHERE i_id = items[i];
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		prices[i] := price;
		UPDATE stock SET s_quantity = CASE WHEN s_quantity >= quantities[i] + 10 THEN s_quantity - quantities[i] ELSE s_quantity - quantities[i] + 91 END,
				s_ytd = s_ytd + quantities[i], s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (suppliers[i] <> w)::int
			WHERE s_w_id = suppliers[i] AND s_i_id = items[i]
			RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[d] INTO info;
		infos[i] := info;
	END LOOP;
	INSERT INTO order_line SELECT w, d, o, l.n, l.item, l.supplier, NULL, l.quantity, l.quantity * l.price, l.info
		FROM unnest(items, suppliers, quantities, prices, infos) WITH ORDINALITY AS l (item, supplier, quantity, price, info, n);
	RETURN o;
END $$;

-- The customer of a payment or an order status: three of five are named, and the one in the middle by first name counts.
CREATE FUNCTION find_customer(w int, d int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	name text := last_name();
	ids int[];
BEGIN
	IF random() < 0.4 THEN
		RETURN nonuniform(1023, 1, 3000);
	END IF;
	SELECT array_agg(c_id ORDER BY c_first) INTO ids FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name;
	RETURN ids[(cardinality(ids) + 1) / 2];
END $$;

-- Clause 2.5.
CREATE FUNCTION pay(w int, warehouses int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	d int := uniform(1, 10);
	cw int := CASE WHEN random() < 0.15 THEN other_warehouse(w, warehouses) ELSE w END;
	cd int := CASE WHEN cw = w THEN d ELSE uniform(1, 10) END;
	amount numeric := uniform(100, 500000) / 100.0;
	c int;
	warehouse_name text;
	district_name text;
BEGIN
	UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO warehouse_name;
	UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d RETURNING d_name INTO district_name;
	c := find_customer(cw, cd);
	UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
			c_data = CASE WHEN c_credit = 'BC' THEN left(c || ' ' || cd || ' ' || cw || ' ' || d || ' ' || w || ' ' || amount || '|' || c_data, 500) ELSE c_data END
		WHERE c_w_id = cw AND c_d_id = cd AND c_id = c;
	INSERT INTO history VALUES (w, d, cw, cd, c, now(), amount, warehouse_name || '    ' || district_name);
	RETURN c;
END $$;

-- Clause 2.6.
CREATE FUNCTION order_status(w int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	d int := uniform(1, 10);
	c int := find_customer(w, d);
	o int;
	line record;
	lines int := 0;
BEGIN
	PERFORM c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
	SELECT o_id INTO o FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c ORDER BY o_id DESC LIMIT 1;
	FOR line IN SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o LOOP
		lines := lines + 1;
	END LOOP;
	RETURN lines;
END $$;

-- Clause 2.7: the oldest order of each district. Returns the number of orders.
CREATE FUNCTION deliver(w int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	o int;
	c int;
	amount numeric;
	delivered int := 0;
BEGIN
	FOR d IN 1 .. 10 LOOP
		SELECT no_o_id INTO o FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
		UPDATE orders SET o_carrier_id = uniform(1, 10) WHERE o_w_id = w AND o_d_id = d AND o_id = o RETURNING o_c_id INTO c;
		UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
		SELECT sum(ol_amount) INTO amount FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
		UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = w AND c_d_id = d AND c_id = c;
		delivered := delivered + 1;
	END LOOP;
	RETURN delivered;
END $$;

-- Clause 2.8.
CREATE FUNCTION stock_level(w int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	d int := uniform(1, 10);
	threshold int := uniform(10, 20);
	next_order int;
BEGIN
	SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = w AND d_id = d;
	RETURN (SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
		WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id < next_order AND ol_o_id >= next_order - 20 AND s_quantity < threshold);
END $$;
