"""Names that programs use, interned before any other import.

Loading a program counts a reference on each name that exists already. Made here in a row, these names lie on a few
pages; made by whichever module of the standard library mentions them first, they would lie on a page each, and each
child would have to copy all of those pages. Imported first, for its effect.
"""

from __future__ import annotations

import sys

_TEXT = """
str success return name Dict typing self error get values TypedDict dict data message isinstance append list strip
result init_config List lower user_id int items len datetime user Optional join Exception role status UserInfo _id
users uuid4 uuid contact_info description float user_info key new_status patient_id patient updated matches
get_user_by_id patients isoformat value record any now date_of_birth all sorted hasattr entry results pending
PatientInfo provider_id account_status records active e update time reason copy allowed_statuses department
get_patient_by_id details field providers strptime start_date provider record_id end_date admin sum list_all_users
email notes date category current_time fromisoformat match timedelta start_time end_time v k sort timestamp title
type Any info valid_statuses location getattr MedicalRecordInfo patient_info ElectronicHealthRecordSystem
required_fields rec medical_records requester_id note found get_user_by_name today enumerate re start end allowed
utcnow m cid list_all_categories content failed bool entries new_entry medical_history get_patient_by_name scheduled
entry_id HospitalPatientManagementSystem ProviderInfo end_dt missing provider_info specialty user_type
list_all_providers start_dt delete_medical_record new_details profile_info username submission_date approved
get_session_by_id duration _ get_user_role session actor_id users_list count sessions session_id total minutes logs
requesting_user_id log_info collections log log_id delete closed authorized current_status completed allergies
allergy pid treatment medications channel treatments appointment_id appointments permission private
access_permission valid remove institution category_id cat categories category_name new_content members split
new_condition idx r Z keyword new_category imported author_id c reverse parent_id new max condition updates set x
clinician optional obstacle words given KINDS FORMS days state wanted _refuse form _date needed deepcopy text held
ValueError kind _misfit problem listed cancelled initial_state
"""
KEPT = [sys.intern(name) for name in _TEXT.split()]
