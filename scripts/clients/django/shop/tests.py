"""tests.py - the ORM's statements; every test holds on a sharded database as it does on a plain one"""

import decimal
import uuid

from django.db import IntegrityError, connection, transaction
from django.db.models import Avg, Count, Exists, F, OuterRef, Q, Subquery, Sum, Window
from django.db.models.functions import Coalesce, RowNumber, Upper
from django.test import TestCase, TransactionTestCase

from shop.models import Ad, Campaign, Company, CompanyTag, Tag


def fill(companies=10):
    """Makes companies with three campaigns and six ads each."""
    tags = Tag.objects.bulk_create(Tag(name=f"tag {i}") for i in range(4))
    made = Company.objects.bulk_create(Company(name=f"company {i}", main_tag=tags[i % 4]) for i in range(companies))
    Campaign.objects.bulk_create(Campaign(company=c, number=n, budget=100 * n, state="new" if n < 3 else "old") for c in made for n in (1, 2, 3))
    Ad.objects.bulk_create(Ad(company=c, number=n, campaign_number=1 + n % 3, title=f"ad {n}", clicks=n) for c in made for n in range(6))
    CompanyTag.objects.bulk_create(CompanyTag(company=c, tag=t) for c in made for t in tags[:2])
    return made


class Statements(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.companies = fill()

    def test_counts(self):
        self.assertEqual([m.objects.count() for m in (Tag, Company, Campaign, Ad, CompanyTag)], [4, 10, 30, 60, 20])

    def test_get_and_filter(self):
        company = self.companies[3]
        self.assertEqual(Campaign.objects.get(pk=(company.id, 2)).budget, 200)
        self.assertEqual(Ad.objects.filter(company=company, clicks__gte=3).count(), 3)
        self.assertEqual(Company.objects.filter(Q(name__contains="1") | Q(name__endswith="2")).count(), 2)
        self.assertEqual(list(Campaign.objects.filter(company=company).order_by("-number").values_list("number", flat=True)), [3, 2, 1])
        self.assertEqual(Company.objects.in_bulk([company.id]), {company.id: company})

    def test_create_and_save(self):
        company = Company.objects.create(name="new")
        company.name = "newer"
        company.save()
        company.refresh_from_db()
        self.assertEqual(company.name, "newer")
        campaign, made = Campaign.objects.get_or_create(company=company, number=1, defaults={"budget": 5})
        self.assertTrue(made)
        self.assertFalse(Campaign.objects.get_or_create(company=company, number=1)[1])
        campaign, made = Campaign.objects.update_or_create(company=company, number=1, defaults={"budget": decimal.Decimal("7.50")})
        self.assertEqual((campaign.budget, made), (decimal.Decimal("7.50"), False))

    def test_bulk(self):
        ads = list(Ad.objects.filter(number=1))
        for ad in ads:
            ad.clicks += 10
        self.assertEqual(Ad.objects.bulk_update(ads, ["clicks"]), 10)
        self.assertEqual(Ad.objects.filter(number=1).aggregate(s=Sum("clicks"))["s"], 110)
        again = [Ad(company_id=a.company_id, number=1, title="again", clicks=0) for a in ads]
        Ad.objects.bulk_create(again, update_conflicts=True, unique_fields=["company_id", "number"], update_fields=["title"])
        self.assertEqual(Ad.objects.filter(title="again", clicks=11).count(), 10)
        Ad.objects.bulk_create(again, ignore_conflicts=True)
        self.assertEqual(Ad.objects.count(), 60)

    def test_update_and_delete(self):
        self.assertEqual(Ad.objects.filter(clicks__lt=3).update(clicks=F("clicks") + 100), 30)
        self.assertEqual(Campaign.objects.filter(state="old").update(state="older"), 10)
        self.assertEqual(Ad.objects.filter(number=5).delete()[0], 10)
        company = self.companies[0]
        self.assertEqual(company.delete()[1], {"shop.Ad": 5, "shop.Campaign": 3, "shop.CompanyTag": 2, "shop.Company": 1})

    def test_aggregates(self):
        self.assertEqual(Campaign.objects.aggregate(s=Sum("budget"), a=Avg("budget"), n=Count("state", distinct=True)), {"s": 6000, "a": 200, "n": 2})
        rows = Company.objects.annotate(n=Count("ads"), clicks=Coalesce(Sum("ads__clicks"), 0)).filter(n__gt=0).order_by("id")
        self.assertEqual({(c.n, c.clicks) for c in rows}, {(6, 15)})
        self.assertEqual(list(Campaign.objects.values("state").annotate(n=Count("*")).order_by("state")), [{"state": "new", "n": 20}, {"state": "old", "n": 10}])
        ranked = Ad.objects.annotate(row=Window(RowNumber(), partition_by=F("company_id"), order_by=F("clicks").desc()))
        self.assertEqual(ranked.filter(row=1).count(), 10)

    def test_joins(self):
        self.assertEqual(Ad.objects.select_related("company", "campaign").get(company=self.companies[1], number=2).campaign.number, 3)
        with self.assertNumQueries(3):
            names = [(c.name, len(c.campaigns.all()), len(c.tags.all())) for c in Company.objects.prefetch_related("campaigns", "tags").order_by("id")]
        self.assertEqual(names[9], ("company 9", 3, 2))
        self.assertEqual(Company.objects.filter(campaigns__state="old", ads__clicks=5).distinct().count(), 10)
        self.assertEqual(Company.objects.filter(tags__name="tag 1").count(), 10)
        self.assertEqual(Company.objects.filter(main_tag__name="tag 1").values_list(Upper("name"), flat=True).order_by("id")[0], "COMPANY 1")

    def test_sub_queries(self):
        old = Campaign.objects.filter(company=OuterRef("pk"), state="old")
        self.assertEqual(Company.objects.filter(Exists(old)).count(), 10)
        self.assertEqual(Company.objects.filter(~Exists(old)).count(), 0)
        best = Ad.objects.filter(company=OuterRef("pk")).order_by("-clicks").values("title")[:1]
        self.assertEqual({c.best for c in Company.objects.annotate(best=Subquery(best))}, {"ad 5"})
        self.assertEqual(Ad.objects.filter(company__in=Company.objects.filter(name__startswith="company 1")).count(), 6)
        self.assertEqual(Campaign.objects.filter(number=1).union(Campaign.objects.filter(number=2)).count(), 20)

    def test_relations(self):
        company = self.companies[2]
        company.tags.add(Tag.objects.get(name="tag 3"))
        company.tags.remove(Tag.objects.get(name="tag 0"))
        self.assertEqual(sorted(company.tags.values_list("name", flat=True)), ["tag 1", "tag 3"])
        company.tags.clear()
        self.assertEqual(company.tags.count(), 0)

    def test_locks(self):
        taken = list(Ad.objects.select_for_update(skip_locked=True).order_by("company_id", "number")[:5])
        self.assertEqual(len(taken), 5)

    def test_pages(self):
        seen = [ad.pk for start in range(0, 60, 25) for ad in Ad.objects.order_by("company_id", "number")[start : start + 25]]
        self.assertEqual(len(set(seen)), 60)

    def test_savepoints_and_errors(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            Campaign.objects.create(company=self.companies[0], number=1)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Ad.objects.create(company_id=999999, number=1, title="nobody's")
            connection.check_constraints()
        with self.assertRaises(IntegrityError), transaction.atomic():
            Tag.objects.create(name="tag 1")
        self.assertEqual(Campaign.objects.count(), 30)

    def test_added_columns(self):
        self.assertEqual(Campaign.objects.values("token").distinct().count(), 30)


class Committed(TransactionTestCase):
    def test_commit_and_rollback(self):
        made = fill(5)
        with transaction.atomic():
            Company.objects.filter(pk=made[0].pk).update(name="committed")
            Ad.objects.filter(company=made[1]).update(title="committed")
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Ad.objects.all().delete()
            raise ZeroDivisionError
        self.assertEqual((Ad.objects.count(), Ad.objects.filter(title="committed").count()), (30, 6))

    def test_tables_are_empty(self):
        """What another test has left is gone: one TRUNCATE of all tables."""
        self.assertEqual([m.objects.count() for m in (Tag, Company, Campaign, Ad, CompanyTag)], [0, 0, 0, 0, 0])
        fill(2)

    def test_server_side_cursor(self):
        fill(5)
        with transaction.atomic():
            self.assertEqual(sum(1 for _ in Ad.objects.iterator(chunk_size=7)), 30)

    def test_deferred_keys(self):
        with transaction.atomic():
            ad = Ad(company_id=uuid.uuid4().int % 1000000, number=1, title="first")
            ad.save(force_insert=True)
            Company(pk=ad.company_id, name="then its company").save(force_insert=True)
        self.assertEqual(Ad.objects.get().company.name, "then its company")
