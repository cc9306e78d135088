"""models.py - companies with campaigns and ads, sharded by company, and tags, a reference table"""

from django.contrib.postgres.functions import RandomUUID
from django.db import models


class Tag(models.Model):
    name = models.CharField(max_length=30, unique=True)


class Company(models.Model):
    name = models.CharField(max_length=100)
    created = models.DateTimeField(auto_now_add=True)
    tags = models.ManyToManyField(Tag, through="CompanyTag")
    main_tag = models.ForeignKey(Tag, null=True, on_delete=models.PROTECT, related_name="+")


class CompanyTag(models.Model):
    pk = models.CompositePrimaryKey("company_id", "tag_id")
    company = models.ForeignKey(Company, on_delete=models.CASCADE)
    tag = models.ForeignKey(Tag, on_delete=models.CASCADE)


class Campaign(models.Model):
    pk = models.CompositePrimaryKey("company_id", "number")
    company = models.ForeignKey(Company, on_delete=models.CASCADE, related_name="campaigns")
    number = models.IntegerField()
    budget = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    state = models.CharField(max_length=10, default="new")
    token = models.UUIDField(db_default=RandomUUID())

    class Meta:
        indexes = [models.Index(fields=["state"], name="campaign_state")]


class Ad(models.Model):
    pk = models.CompositePrimaryKey("company_id", "number")
    company = models.ForeignKey(Company, on_delete=models.CASCADE, related_name="ads")
    number = models.IntegerField()
    campaign_number = models.IntegerField(null=True)
    campaign = models.ForeignObject(
        Campaign, on_delete=models.CASCADE, null=True, from_fields=["company_id", "campaign_number"], to_fields=["company_id", "number"], related_name="ads"
    )
    title = models.TextField()
    clicks = models.IntegerField(default=0)
