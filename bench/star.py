#!/usr/bin/python3
"""star.py - the data of bench/star: CSV files of a snowflake of shops, the same for the same scale

    star.py FOLDER SCALE

Scale 1 is 5 million rows of sale; dimensions do not grow. Products and customers are not equally
popular: half of the sales go to a quarter of them.
"""

import csv
import datetime
import os
import random
import sys

SALES = 5_000_000
CITIES, STORES, CATEGORIES, BRANDS, PRODUCTS, CUSTOMERS, CLERKS, DAYS = 300, 1000, 200, 2000, 500_000, 380_000, 20_000, 3650
FIRST_DAY = datetime.date(2015, 1, 1)
REGIONS = ("Africa", "America", "Asia", "Europe", "Oceania")
KINDS = ("corner", "mall", "outlet", "street")
SALE_COLUMNS = "sale_id sold_on store_id clerk_id product_id customer_id promotion_id channel_id quantity amount cost"
COLOURS = ("black", "blue", "brown", "green", "grey", "orange", "red", "white", "yellow")


def cents(value):
    return f"{value // 100}.{value % 100:02}"


def dimensions(rng):
    """Yields (table, its columns, rows)."""
    pick = rng.randrange
    days = [FIRST_DAY + datetime.timedelta(days=i) for i in range(DAYS)]
    yield ("country", "country_id country_name region",
           ((i, f"country {i}", REGIONS[i % 5]) for i in range(30)))
    yield ("city", "city_id city_name country_id",
           ((i, f"city {i}", i % 30) for i in range(CITIES)))
    yield ("store", "store_id store_name city_id kind opened",
           ((i, f"store {i}", i % CITIES, KINDS[pick(4)], days[pick(DAYS)]) for i in range(STORES)))
    yield ("channel", "channel_id channel_name",
           ((i, f"channel {i}") for i in range(10)))
    yield ("promotion", "promotion_id promotion_name kind discount",
           ((i, f"promotion {i}", ("none", "coupon", "season", "clearance")[i % 4], i % 50) for i in range(100)))
    yield ("department", "department_id department_name",
           ((i, f"department {i}") for i in range(10)))
    yield ("category", "category_id category_name department_id",
           ((i, f"category {i}", i % 10) for i in range(CATEGORIES)))
    yield ("maker", "maker_id maker_name country_id",
           ((i, f"maker {i}", i % 30) for i in range(50)))
    yield ("brand", "brand_id brand_name maker_id",
           ((i, f"brand {i}", i % 50) for i in range(BRANDS)))
    yield ("product", "product_id product_name brand_id category_id price colour weight",
           ((i, f"product {i}", pick(BRANDS), pick(CATEGORIES), cents(pick(100, 50_000)), COLOURS[pick(9)], pick(10, 5000)) for i in range(PRODUCTS)))
    yield ("segment", "segment_id segment_name",
           ((i, f"segment {i}") for i in range(10)))
    yield ("customer", "customer_id customer_name segment_id city_id born vip",
           ((i, f"customer {i}", pick(10), pick(CITIES), datetime.date(1940, 1, 1) + datetime.timedelta(days=pick(25_000)), pick(20) == 0)
            for i in range(CUSTOMERS)))
    yield ("clerk", "clerk_id clerk_name store_id hired",
           ((i, f"clerk {i}", i % STORES, days[pick(DAYS)]) for i in range(CLERKS)))
    yield ("day", "day year quarter month weekday holiday",
           ((day, day.year, (day.month + 2) // 3, day.month, day.isoweekday(), day.month == 12 and day.day in (25, 26)) for day in days))


def sales(rng, nrows):
    days = [(FIRST_DAY + datetime.timedelta(days=i)).isoformat() for i in range(DAYS)]
    rnd = rng.random
    for i in range(nrows):
        clerk = int(rnd() * CLERKS)
        quantity = 1 + int(rnd() * 10)
        amount = quantity * (100 + int(rnd() * 50_000))
        yield (i, days[int(rnd() * DAYS)], clerk % STORES, clerk, int(PRODUCTS * rnd() ** 2), int(CUSTOMERS * rnd() ** 2), int(rnd() * 100), int(rnd() * 10),
               quantity, cents(amount), cents(int(amount * (0.5 + rnd() / 3))))


def main():
    folder, scale = sys.argv[1], float(sys.argv[2])
    rng = random.Random(1)
    for table, columns, rows in (*dimensions(rng), ("sale", SALE_COLUMNS, sales(rng, round(SALES * scale)))):
        with open(os.path.join(folder, table + ".csv"), "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns.split())
            writer.writerows(rows)


if __name__ == "__main__":
    main()
